//! Assembles a message from its events.

use std::collections::BTreeSet;

use crate::assembler::{Assembler, Key, unknown_call};
use crate::failure::ProviderError;
use crate::frames::Frame;
use crate::json::{Json, Object};
use crate::message::Tokens;
use crate::model::{ModelResponse, StopReason};
use crate::opaque;
use crate::pieces::JoinedText;
use crate::wire::{Fold, WireError};

/// The maximum number of thinking blocks in an answer.
const MAX_THOUGHTS: usize = 256;

/// A message that is still arriving.
#[derive(Default)]
pub(super) struct AnthropicFold {
    name: String,
    answer: Assembler,
    /// The indexes of ignored blocks.
    others: BTreeSet<String>,
    /// Thinking blocks that precede the next call.
    thoughts: Vec<Thought>,
    tokens: Tokens,
    stop: StopReason,
    over: bool,
}

/// A thinking block. The provider rejects it if it is not returned unchanged.
#[derive(Default)]
struct Thought {
    place: String,
    thinking: JoinedText,
    signature: JoinedText,
    /// The content of an encrypted (redacted) block.
    data: Option<String>,
}

impl Thought {
    fn push(&mut self, part: &Object<'_>) {
        self.thinking.push(&part.text("thinking").unwrap_or_default());
        self.signature.push(&part.text("signature").unwrap_or_default());
    }

    fn json(&self) -> serde_json::Value {
        match &self.data {
            Some(data) => serde_json::json!({"type": "redacted_thinking", "data": data}),
            None => {
                serde_json::json!({"type": "thinking", "thinking": self.thinking.as_str(), "signature": self.signature.as_str()})
            }
        }
    }
}

impl AnthropicFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    fn start(&mut self, place: String, start: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        self.others.remove(&place);
        match start.word("type").as_str() {
            "text" => self.answer.say(&start.text("text")?, text),
            "tool_use" => return self.tool_use(Key { place, call: start.word("id"), ..Key::default() }, start),
            "thinking" | "redacted_thinking" if self.thoughts.len() < MAX_THOUGHTS => {
                let data = start.get("data").and_then(Json::word);
                let mut thought = Thought { place, data, ..Thought::default() };
                thought.push(start);
                self.thoughts.push(thought);
            }
            _ => {
                self.others.insert(place);
            }
        }
        Ok(())
    }

    fn tool_use(&mut self, key: Key, start: &Object<'_>) -> Result<(), WireError> {
        // Some servers send the start of a call twice.
        let found = self.answer.last(|it| !key.call.is_empty() && it.key == key);
        let at = found.map_or_else(|| self.answer.begin(key), Ok)?;
        let draft = &mut self.answer.calls[at];
        if !self.thoughts.is_empty() {
            let thoughts: Vec<_> = self.thoughts.drain(..).map(|it| it.json()).collect();
            draft.call.opaque = opaque::pack(&self.name, &thoughts);
        }
        draft.call.add_name(&start.text("name")?.into_text())?;
        // Some servers send the whole input here and no deltas.
        match start.get("input") {
            Some(input) => draft.set(Some(input)),
            None => draft.call.set("{}"),
        }
    }

    fn delta(&mut self, place: &str, delta: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        self.answer.say(&delta.text("text")?, text);
        if self.others.contains(place) {
            return Ok(());
        }
        if let Some(thought) = self.thoughts.iter_mut().rfind(|it| it.place == place) {
            thought.push(delta);
        }
        match delta.get("partial_json").filter(|it| !it.is_empty_text()) {
            None => Ok(()),
            Some(part) => match self.answer.call_to_continue(|it| place.is_empty() || it.key.place == place)? {
                Some(at) => self.answer.calls[at].call.take(part),
                None => Err(unknown_call()),
            },
        }
    }

    fn count(&mut self, usage: &Object<'_>) {
        let input = usage.sum(&["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]);
        // Some servers send the input tokens only at the end.
        self.tokens.input = self.tokens.input.max(input);
        self.tokens.output = usage.count("output_tokens").unwrap_or(self.tokens.output);
    }
}

impl Fold for AnthropicFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        let event = Object::parse(&frame.data)?;
        if event.get("error").is_some() {
            return Err(WireError::from_error_event(&frame.data));
        }
        let usage = event.object("message").and_then(|it| it.object("usage")).or(event.object("usage"));
        usage.iter().for_each(|usage| self.count(usage));
        let kind = event.get("type").and_then(Json::word);
        match kind.as_deref().unwrap_or(&frame.event) {
            "content_block_start" => {
                event.part("content_block")?.map_or(Ok(()), |start| self.start(event.place("index"), &start, text))
            }
            "content_block_delta" => {
                event.part("delta")?.map_or(Ok(()), |delta| self.delta(&event.place("index"), &delta, text))
            }
            "content_block_stop" => {
                let place = event.place("index");
                let ended = self.answer.last(|it| !place.is_empty() && it.key.place == place);
                ended.into_iter().for_each(|at| self.answer.calls[at].is_ended = true);
                Ok(())
            }
            "message_delta" => {
                match event.part("delta")?.map(|it| it.word("stop_reason")).as_deref() {
                    Some("max_tokens" | "model_context_window_exceeded") => self.stop = StopReason::Length,
                    Some("refusal") => self.stop = StopReason::Refused,
                    _ => {}
                }
                Ok(())
            }
            "message_stop" => {
                self.over = true;
                Ok(())
            }
            "error" => Err(WireError::Failed(ProviderError::from_text(""))),
            _ => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<ModelResponse, WireError> {
        if !self.over {
            return Err(WireError::CutOff);
        }
        self.answer.finish(self.stop, self.tokens, text)
    }
}
