//! Assembles a chat completion from its chunks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::assembler::{Assembler, Draft, Key, Unclear};
use crate::failure::ProviderError;
use crate::frames::Frame;
use crate::json::{Json, Object};
use crate::message::Tokens;
use crate::model::{ModelResponse, StopReason};
use crate::opaque;
use crate::pieces::{JoinedText, Piece};
use crate::wire::{Fold, WireError};

/// Opaque data that servers require back: DeepSeek the model's reasoning, Gemini a signature.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ChatOpaqueData<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) reasoning: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pub(super) extra_content: Option<&'a RawValue>,
}

impl ChatOpaqueData<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.reasoning_content.is_none() && self.reasoning.is_none() && self.extra_content.is_none()
    }
}

/// A completion that is still arriving.
#[derive(Default)]
pub(super) struct ChatFold {
    name: String,
    answer: Assembler,
    /// The reasoning, in a field for each name that servers use.
    reasoning_content: JoinedText,
    reasoning: JoinedText,
    /// The `extra_content` of calls, by call index.
    extra_content: BTreeMap<usize, Box<RawValue>>,
    tokens: Tokens,
    finish_reason: Option<String>,
    refused: bool,
    has_choice: bool,
    over: bool,
}

/// A delta of a call.
struct CallDelta<'a> {
    key: Key,
    name: String,
    arguments: Option<Json<'a>>,
    extra_content: Option<Json<'a>>,
}

impl<'a> CallDelta<'a> {
    fn read(delta: Json<'a>) -> Result<Self, WireError> {
        let delta = delta.object()?;
        let function = delta.part("function")?;
        let name = function.as_ref().map_or(Ok(Piece::default()), |it| it.text("name"))?.into_text();
        let arguments = function.as_ref().and_then(|it| it.get("arguments"));
        let key = Key { place: delta.place("index"), call: delta.word("id"), ..Key::default() };
        Ok(Self { key, name, arguments, extra_content: delta.get("extra_content") })
    }

    /// Returns whether the delta's arguments begin an object.
    fn begins_arguments(&self) -> bool {
        self.arguments.is_some_and(|it| it.word().is_none_or(|text| text.trim_start().starts_with('{')))
    }

    /// Returns whether the delta is empty. Some servers send such a delta at the end.
    fn is_empty(&self) -> bool {
        let has_arguments = self.arguments.is_some_and(|it| !it.is_empty_text());
        self.key.call.is_empty() && self.name.is_empty() && !has_arguments && self.extra_content.is_none()
    }

    /// Returns whether the delta begins a new call instead of continuing `draft`. Servers deviate in many ways:
    /// several calls share an index or have none, calls share an id or have none, each delta of a call has a new
    /// id, or id and name are repeated in each delta.
    fn begins_after(&self, draft: &Draft) -> Result<bool, Unclear> {
        let call = &draft.call;
        if self.name.is_empty() || call.name.is_empty() {
            return Ok(false);
        }
        let has_other_id = !self.key.call.is_empty() && !call.id.is_empty() && self.key.call != call.id;
        let has_other_name = self.name != call.name;
        if call.is_blank() {
            // This is either part of the name or a second call without arguments. An id or an index tells them
            // apart.
            let is_told = !call.id.is_empty() || !self.key.place.is_empty() || !has_other_name;
            return if is_told { Ok(has_other_id) } else { Err(Unclear) };
        }
        let is_other = has_other_id || has_other_name;
        match (call.is_closed(), call.is_given()) {
            (true, _) => Ok(is_other || self.begins_arguments()),
            (false, true) => Ok(is_other),
            _ if is_other => Err(Unclear),
            _ => Ok(false),
        }
    }

    /// Returns whether the delta repeats a complete call.
    fn repeats(&self, draft: &Draft) -> bool {
        let arguments = self.arguments.and_then(|it| it.whole_text().ok());
        !self.key.call.is_empty() && self.key == draft.key && arguments.is_some_and(|it| draft.call.reads(&it))
    }
}

impl ChatFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    fn delta(&mut self, delta: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        let refusal = delta.text("refusal")?;
        self.refused |= !refusal.is_empty();
        for piece in content(delta.get("content"))?.into_iter().chain([refusal]) {
            self.answer.say(&piece, text);
        }
        // Some servers send objects here.
        self.reasoning_content.push(&delta.text("reasoning_content").unwrap_or_default());
        self.reasoning.push(&delta.text("reasoning").unwrap_or_default());
        let deltas = delta.list("tool_calls")?.into_iter().map(CallDelta::read).collect::<Result<Vec<_>, _>>()?;
        // Deltas in the same list belong to different calls. Deltas without an id or index are in call order.
        let (open, known, count) = (self.answer.open(), self.answer.calls.len(), deltas.len());
        let in_order = if open.len() == count || known != count { open } else { (0..known).collect() };
        for (at, delta) in deltas.into_iter().enumerate().filter(|(_, it)| !it.is_empty()) {
            let positioned = in_order.get(at).copied().filter(|_| in_order.len() == count);
            self.call(&delta, positioned, known)?;
        }
        Ok(())
    }

    /// Adds a delta of a call. `positioned` is the call at the same position in the list. `known` is the number of
    /// calls that existed before the list.
    fn call(&mut self, delta: &CallDelta<'_>, positioned: Option<usize>, known: usize) -> Result<(), WireError> {
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

    /// Returns the call that a delta may continue, found by index and id, by either one, or as the only open call.
    /// Returns `None` if the delta certainly begins a call.
    fn find(&self, delta: &CallDelta<'_>, positioned: Option<usize>, known: usize) -> Result<Option<usize>, WireError> {
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
            (true, false) => answer.call_to_continue(is_there)?,
            (false, true) => None,
            (false, false) if has_name && answer.calls.len() > known => None,
            (false, false) => positioned.map_or_else(|| answer.call_to_continue(|_| true), |at| Ok(Some(at)))?,
        };
        // Two deltas with names in the same list are two calls.
        Ok(found.filter(|at| *at < known || !has_name))
    }
}

impl Fold for ChatFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        if frame.data.trim() == "[DONE]" {
            self.over = true;
            return Ok(());
        }
        let chunk = match Object::parse(&frame.data) {
            Ok(chunk) => chunk,
            Err(_) if frame.event == "error" => return Err(WireError::Failed(error(&frame.data))),
            Err(error) => return Err(error),
        };
        if chunk.get("error").is_some() || chunk.word("object") == "error" {
            return Err(WireError::Failed(error(&frame.data)));
        }
        if frame.event == "error" {
            return Err(WireError::Failed(error(&format!("{{\"error\":{}}}", frame.data))));
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
            choice.part("delta")?.map_or(Ok(()), |delta| self.delta(&delta, text))?;
            self.finish_reason = choice.get("finish_reason").and_then(Json::word).or(self.finish_reason.take());
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(mut self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<ModelResponse, WireError> {
        if !self.over || matches!(self.finish_reason.as_deref(), Some("abort" | "error")) {
            return Err(WireError::CutOff);
        }
        if !self.has_choice {
            return Err(WireError::Malformed("it has no choices".to_owned()));
        }
        let stop = match self.finish_reason.as_deref() {
            Some("length") => StopReason::Length,
            Some("content_filter") => StopReason::Refused,
            _ if self.refused => StopReason::Refused,
            _ => StopReason::Done,
        };
        let (reasoning_content, reasoning) = (raw(self.reasoning_content), raw(self.reasoning));
        for (at, draft) in self.answer.calls.iter_mut().enumerate() {
            let data = ChatOpaqueData {
                reasoning_content: reasoning_content.as_deref().filter(|_| at == 0),
                reasoning: reasoning.as_deref().filter(|_| at == 0),
                extra_content: self.extra_content.get(&at).map(|it| &**it),
            };
            if !data.is_empty() {
                draft.call.opaque = opaque::pack(&self.name, &data);
            }
        }
        self.answer.finish(stop, self.tokens, text)
    }
}

/// Returns the content as text. Some servers send a list of parts instead of a string.
fn content(json: Option<Json<'_>>) -> Result<Vec<Piece>, WireError> {
    let Some(json) = json else { return Ok(Vec::new()) };
    if json.is_text() {
        return Ok(vec![json.text()?]);
    }
    let parts = json.list()?.into_iter().map(Json::object).collect::<Result<Vec<_>, _>>()?;
    parts.iter().filter(|it| it.word("type") == "text").map(|it| it.text("text")).collect()
}

/// Returns text as a JSON string, or `None` if it is empty.
fn raw(text: JoinedText) -> Option<Box<RawValue>> {
    let text = text.into_text();
    let json = (!text.is_empty()).then(|| serde_json::value::to_raw_value(&text))?;
    json.ok()
}

fn error(json: &str) -> ProviderError {
    ProviderError::from_json(json).unwrap_or_else(|| ProviderError::from_text(json))
}
