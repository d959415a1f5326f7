//! Puts the chunks of a chat completion together.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::message::Tokens;
use crate::provider::calls::{self, Partial};
use crate::provider::failure::Said;
use crate::provider::frames::Frame;
use crate::provider::model::{Reply, Stop};
use crate::provider::opaque;
use crate::provider::wire::{Fault, Fold, string};

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
    text: String,
    /// Under the names that servers give it.
    reasoning_content: String,
    reasoning: String,
    calls: Vec<Indexed>,
    tokens: Tokens,
    finish_reason: Option<String>,
    refused: bool,
    has_choice: bool,
    over: bool,
}

/// A call under the index that the server gave it.
#[derive(Default)]
struct Indexed {
    index: Option<i64>,
    call: Partial,
    extra_content: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Chunk<'a> {
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    usage: Option<Usage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    object: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    index: Option<i64>,
    #[serde(borrow)]
    delta: Option<Delta<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Delta<'a> {
    #[serde(borrow)]
    content: Option<&'a RawValue>,
    #[serde(borrow)]
    refusal: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning_content: Option<&'a RawValue>,
    #[serde(borrow)]
    reasoning: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    index: Option<i64>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<FunctionDelta<'a>>,
    #[serde(borrow)]
    extra_content: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

impl ChatFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    fn delta(&mut self, delta: Delta<'_>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let refusal = string(delta.refusal).filter(|it| !it.is_empty());
        self.refused |= refusal.is_some();
        for said in [content(delta.content), refusal].into_iter().flatten().filter(|it| !it.is_empty()) {
            text(&said);
            self.text.push_str(&said);
        }
        self.reasoning_content.push_str(&string(delta.reasoning_content).unwrap_or_default());
        self.reasoning.push_str(&string(delta.reasoning).unwrap_or_default());
        delta.tool_calls.into_iter().flatten().try_for_each(|delta| self.call(delta))
    }

    fn call(&mut self, delta: CallDelta<'_>) -> Result<(), Fault> {
        let id = delta.id.unwrap_or_default();
        let (name, json) = delta.function.map_or((None, None), |it| (it.name, it.arguments));
        let (name, part) = (name.unwrap_or_default(), calls::arguments(json).unwrap_or_default());
        let found = match self.place(delta.index, &id, &name, &part) {
            Some(at) => &mut self.calls[at],
            // Some servers end with an empty one.
            None if id.is_empty() && name.is_empty() && part.is_empty() => return Ok(()),
            None => calls::add(&mut self.calls, Indexed { index: delta.index, ..Indexed::default() })?,
        };
        if found.call.id.is_empty() {
            found.call.id = id;
        }
        if found.call.name.is_empty() {
            found.call.name = name;
        }
        found.call.push(&part);
        if let Some(extra) = delta.extra_content {
            found.extra_content = Some(extra.to_owned());
        }
        Ok(())
    }

    /// Which call a delta continues. None if it begins one: servers give equal indexes, or none, to several calls; equal
    /// ids, or none; a new id to each delta of one call; and repeat id and name in each delta.
    fn place(&self, index: Option<i64>, id: &str, name: &str, part: &str) -> Option<usize> {
        let last = self.calls.len().checked_sub(1);
        let of_id = || self.calls.iter().rposition(|it| !id.is_empty() && it.call.id == id);
        let found = match index {
            Some(_) => self.calls.iter().rposition(|it| it.index == index),
            None if name.is_empty() => of_id().or(last),
            None if id.is_empty() => last,
            None => of_id(),
        };
        let call = &self.calls[found?].call;
        let differs = |new: &str, old: &str| !new.is_empty() && !old.is_empty() && new != old;
        let begins_again = part.trim_start().starts_with('{') && call.is_closed();
        let is_new = !name.is_empty() && (differs(id, &call.id) || differs(name, &call.name) || begins_again);
        found.filter(|_| !is_new)
    }
}

impl Fold for ChatFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        if frame.data.trim() == "[DONE]" {
            self.over = true;
            return Ok(());
        }
        let chunk: Chunk<'_> = match serde_json::from_str(&frame.data) {
            Ok(chunk) => chunk,
            Err(_) if frame.event == "error" => return Err(Fault::Failed(error(&frame.data))),
            Err(error) => return Err(Fault::of_json(&error)),
        };
        if chunk.error.is_some_and(|it| it.get() != "null") || chunk.object.as_deref() == Some("error") {
            return Err(Fault::Failed(error(&frame.data)));
        }
        if frame.event == "error" {
            return Err(Fault::Failed(error(&format!("{{\"error\":{}}}", frame.data))));
        }
        if let Some(usage) = chunk.usage {
            self.tokens = Tokens {
                input: usage.prompt_tokens.unwrap_or(self.tokens.input),
                output: usage.completion_tokens.unwrap_or(self.tokens.output),
            };
        }
        for choice in chunk.choices.into_iter().flatten().filter(|it| it.index.unwrap_or(0) == 0) {
            self.has_choice = true;
            choice.delta.map_or(Ok(()), |delta| self.delta(delta, text))?;
            self.finish_reason = choice.finish_reason.or(self.finish_reason.take());
        }
        Ok(())
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(self: Box<Self>) -> Result<Reply, Fault> {
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
        let (name, reasoning_content, reasoning) = (self.name, raw(&self.reasoning_content), raw(&self.reasoning));
        let pack = |(at, mut it): (usize, Indexed)| {
            let kept = Kept {
                reasoning_content: reasoning_content.as_deref().filter(|_| at == 0),
                reasoning: reasoning.as_deref().filter(|_| at == 0),
                extra_content: it.extra_content.as_deref(),
            };
            if !kept.is_empty() {
                it.call.opaque = opaque::pack(&name, &kept);
            }
            it.call
        };
        let calls = self.calls.into_iter().enumerate().map(pack).collect();
        Ok(Reply { text: self.text, calls: calls::finished(calls, stop), tokens: self.tokens, stop })
    }
}

/// Text, or the text among the parts in which some servers send it.
fn content(json: Option<&RawValue>) -> Option<String> {
    #[derive(Deserialize)]
    struct Part {
        r#type: Option<String>,
        text: Option<String>,
    }
    let json = json?;
    if json.get().starts_with('[') {
        let parts: Vec<Part> = serde_json::from_str(json.get()).ok()?;
        return Some(
            parts.into_iter().filter(|it| it.r#type.as_deref() == Some("text")).filter_map(|it| it.text).collect(),
        );
    }
    string(Some(json))
}

/// Text as JSON. None if it is empty.
fn raw(text: &str) -> Option<Box<RawValue>> {
    let json = (!text.is_empty()).then(|| serde_json::value::to_raw_value(text))?;
    json.ok()
}

fn error(json: &str) -> Said {
    Said::of_json(json).unwrap_or_else(|| Said::unexplained(json))
}
