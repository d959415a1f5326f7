//! Puts the chunks of a chat completion together.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::message::Tokens;
use crate::provider::assembler::{Assembler, Draft, Key, Unclear};
use crate::provider::failure::Said;
use crate::provider::frames::Frame;
use crate::provider::json::{Json, Object};
use crate::provider::model::{Reply, Stop};
use crate::provider::opaque;
use crate::provider::pieces::{Joined, Piece};
use crate::provider::wire::{Fault, Fold};

/// What a server gives and wants back: DeepSeek its model's reasoning, Gemini a signature.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<&'a RawValue>,
}

impl Kept<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.reasoning_content.is_none() && self.reasoning.is_none() && self.extra_content.is_none()
    }
}

/// A completion so far.
#[derive(Default)]
pub(super) struct ChatFold {
    name: String,
    answer: Assembler,
    /// Under the names that servers give it.
    reasoning_content: Joined,
    reasoning: Joined,
    /// What came with calls, by their numbers.
    extra_content: BTreeMap<usize, Box<RawValue>>,
    tokens: Tokens,
    finish_reason: Option<String>,
    refused: bool,
    has_choice: bool,
    over: bool,
}

/// A part of a call.
struct CallDelta<'a> {
    key: Key,
    name: String,
    arguments: Option<Json<'a>>,
    /// The arguments begin with it.
    begins: bool,
    extra_content: Option<Json<'a>>,
}

impl<'a> CallDelta<'a> {
    fn read(delta: Json<'a>) -> Result<Self, Fault> {
        let delta = delta.object()?;
        let function = delta.get("function").map(Json::object).transpose()?;
        let name = function.as_ref().map_or(Ok(Piece::default()), |it| it.text("name"))?.into_text();
        let arguments = function.as_ref().and_then(|it| it.get("arguments"));
        let key = Key { place: delta.place("index"), call: delta.word("id"), ..Key::default() };
        let begins = arguments.is_some_and(|it| it.word().is_none_or(|text| text.trim_start().starts_with('{')));
        Ok(Self { key, name, arguments, begins, extra_content: delta.get("extra_content") })
    }

    /// Whether it says nothing. Some servers end with such a part.
    fn is_empty(&self) -> bool {
        let has_arguments = self.arguments.is_some_and(|it| !it.is_empty_text());
        self.key.call.is_empty() && self.name.is_empty() && !has_arguments && self.extra_content.is_none()
    }

    /// Whether it begins a call, rather than continue this one: servers give equal places, or none, to several calls; equal
    /// ids, or none; a new id to each part of one call; and repeat id and name in each part.
    fn begins_after(&self, draft: &Draft) -> Result<bool, Unclear> {
        let call = &draft.call;
        if self.name.is_empty() || call.name.is_empty() {
            return Ok(false);
        }
        let has_other_id = !self.key.call.is_empty() && !call.id.is_empty() && self.key.call != call.id;
        let has_other_name = self.name != call.name;
        if call.is_blank() {
            // A name in parts, or two calls without arguments: an id or a place tells.
            let is_told = !call.id.is_empty() || !self.key.place.is_empty() || !has_other_name;
            return if is_told { Ok(has_other_id) } else { Err(Unclear) };
        }
        let is_other = has_other_id || has_other_name;
        match (call.is_closed(), call.is_given()) {
            (true, _) => Ok(is_other || self.begins),
            (false, true) => Ok(is_other),
            _ if is_other => Err(Unclear),
            _ => Ok(false),
        }
    }

    /// Whether it repeats a whole call.
    fn repeats(&self, draft: &Draft) -> bool {
        let arguments = self.arguments.and_then(|it| it.whole_text().ok());
        !self.key.call.is_empty() && self.key == draft.key && arguments.is_some_and(|it| draft.call.reads(&it))
    }
}

impl ChatFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    fn delta(&mut self, delta: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let refusal = delta.text("refusal")?;
        self.refused |= !refusal.is_empty();
        for piece in content(delta.get("content"))?.into_iter().chain([refusal]) {
            self.answer.say(&piece, text);
        }
        // Some servers send objects here.
        self.reasoning_content.push(&delta.text("reasoning_content").unwrap_or_default());
        self.reasoning.push(&delta.text("reasoning").unwrap_or_default());
        let deltas = delta.list("tool_calls")?.into_iter().map(CallDelta::read).collect::<Result<Vec<_>, _>>()?;
        // Parts of one list are of different calls: those that do not say of which are in the order of the calls.
        let (open, known, count) = (self.answer.open(), self.answer.calls.len(), deltas.len());
        let in_order = if open.len() == count || known != count { open } else { (0..known).collect() };
        for (at, delta) in deltas.into_iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            let positioned = in_order.get(at).copied().filter(|_| in_order.len() == count);
            self.call(&delta, positioned, known)?;
        }
        Ok(())
    }

    /// Takes a part of a call. `positioned` is the call at its position, and `known` the number of calls before its list.
    fn call(&mut self, delta: &CallDelta<'_>, positioned: Option<usize>, known: usize) -> Result<(), Fault> {
        let mut found = self.find(delta, positioned, known)?;
        if let Some(draft) = found.map(|at| &self.answer.calls[at])
            && delta.begins_after(draft)?
        {
            if delta.repeats(draft) {
                return Ok(());
            }
            found = None;
        }
        let at = found.map_or_else(|| self.answer.begin(delta.key.clone()), Ok)?;
        let call = &mut self.answer.calls[at].call;
        if call.id.is_empty() {
            call.id.clone_from(&delta.key.call);
        }
        call.add_name(&delta.name)?;
        delta.arguments.map_or(Ok(()), |it| call.take(it))?;
        if let Some(extra) = delta.extra_content {
            self.extra_content.insert(at, extra.raw().to_owned());
        }
        Ok(())
    }

    /// Which call a part may continue: by its place and its id, by one of them, or the only one that is open. None if it
    /// certainly begins one.
    fn find(&self, delta: &CallDelta<'_>, positioned: Option<usize>, known: usize) -> Result<Option<usize>, Fault> {
        let (answer, key, has_name) = (&self.answer, &delta.key, !delta.name.is_empty());
        let (has_place, has_id) = (!key.place.is_empty(), !key.call.is_empty());
        let is_there = |it: &Draft| it.key.place == key.place;
        let is_it =
            |it: &Draft| has_id && it.call.id == key.call && (!has_place || it.key.place.is_empty() || is_there(it));
        if let Some(found) = answer.last(is_it) {
            return Ok(Some(found));
        }
        let found = match (has_place, has_name && has_id) {
            (true, true) => answer.last(is_there),
            (true, false) => answer.continued(is_there)?,
            (false, true) => None,
            (false, false) if has_name && answer.calls.len() > known => None,
            (false, false) => positioned.map_or_else(|| answer.continued(|_| true), |at| Ok(Some(at)))?,
        };
        // Of one list, two parts with names are two calls.
        Ok(found.filter(|at| *at < known || !has_name))
    }
}

impl Fold for ChatFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        if frame.data.trim() == "[DONE]" {
            self.over = true;
            return Ok(());
        }
        let chunk = match Json::parse(&frame.data).and_then(Json::object) {
            Ok(chunk) => chunk,
            Err(_) if frame.event == "error" => return Err(Fault::Failed(error(&frame.data))),
            Err(fault) => return Err(fault),
        };
        if chunk.get("error").is_some() || chunk.word("object") == "error" {
            return Err(Fault::Failed(error(&frame.data)));
        }
        if frame.event == "error" {
            return Err(Fault::Failed(error(&format!("{{\"error\":{}}}", frame.data))));
        }
        if let Some(usage) = chunk.object("usage") {
            self.tokens = Tokens {
                input: usage.count("prompt_tokens").unwrap_or(self.tokens.input),
                output: usage.count("completion_tokens").unwrap_or(self.tokens.output),
            };
        }
        for choice in chunk.list("choices")? {
            let choice = choice.object()?;
            if !matches!(choice.place("index").as_str(), "" | "0") {
                continue;
            }
            self.has_choice = true;
            if let Some(delta) = choice.get("delta") {
                self.delta(&delta.object()?, text)?;
            }
            self.finish_reason = choice.get("finish_reason").and_then(Json::word).or(self.finish_reason.take());
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(mut self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<Reply, Fault> {
        if !self.over || matches!(self.finish_reason.as_deref(), Some("abort" | "error")) {
            return Err(Fault::CutOff);
        }
        if !self.has_choice {
            return Err(Fault::Malformed("it has no choice".to_owned()));
        }
        let stop = match self.finish_reason.as_deref() {
            Some("length") => Stop::Length,
            Some("content_filter") => Stop::Refused,
            _ if self.refused => Stop::Refused,
            _ => Stop::Done,
        };
        let (reasoning_content, reasoning) = (raw(self.reasoning_content), raw(self.reasoning));
        for (at, draft) in self.answer.calls.iter_mut().enumerate() {
            let kept = Kept {
                reasoning_content: reasoning_content.as_deref().filter(|_| at == 0),
                reasoning: reasoning.as_deref().filter(|_| at == 0),
                extra_content: self.extra_content.get(&at).map(|it| &**it),
            };
            if !kept.is_empty() {
                draft.call.opaque = opaque::pack(&self.name, &kept);
            }
        }
        self.answer.finish(stop, self.tokens, text)
    }
}

/// Text, or the text among the parts in which some servers send it.
fn content(json: Option<Json<'_>>) -> Result<Vec<Piece>, Fault> {
    let Some(json) = json else { return Ok(Vec::new()) };
    if json.is_text() {
        return Ok(vec![json.text()?]);
    }
    let parts = json.list()?.into_iter().map(Json::object).collect::<Result<Vec<_>, _>>()?;
    parts.iter().filter(|it| it.word("type") == "text").map(|it| it.text("text")).collect()
}

/// Text as JSON. None if it is empty.
fn raw(text: Joined) -> Option<Box<RawValue>> {
    let text = text.into_text();
    let json = (!text.is_empty()).then(|| serde_json::value::to_raw_value(&text))?;
    json.ok()
}

fn error(json: &str) -> Said {
    Said::of_json(json).unwrap_or_else(|| Said::unexplained(json))
}
