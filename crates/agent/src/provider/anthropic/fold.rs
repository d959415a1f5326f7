//! Puts the events of a message together.

use std::collections::BTreeSet;

use crate::message::Tokens;
use crate::provider::assembler::{Assembler, Key};
use crate::provider::failure::Said;
use crate::provider::frames::Frame;
use crate::provider::json::{Json, Object};
use crate::provider::model::{Reply, Stop};
use crate::provider::opaque;
use crate::provider::pieces::Joined;
use crate::provider::wire::{Fault, Fold};

/// How many blocks of thought an answer may have.
const MAX_THOUGHTS: usize = 256;

/// A message so far.
#[derive(Default)]
pub(super) struct AnthropicFold {
    name: String,
    answer: Assembler,
    /// The places of blocks that are not read.
    others: BTreeSet<String>,
    /// Thoughts that no call follows yet.
    thoughts: Vec<Thought>,
    tokens: Tokens,
    stop: Stop,
    over: bool,
}

/// A block of thought. It goes back as it came, or is refused.
#[derive(Default)]
struct Thought {
    place: String,
    thinking: Joined,
    signature: Joined,
    /// The text of one that is encrypted.
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

    fn start(&mut self, place: String, start: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
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

    fn tool_use(&mut self, key: Key, start: &Object<'_>) -> Result<(), Fault> {
        // A start that comes twice begins one call.
        let found = self.answer.last(|it| !key.call.is_empty() && it.key == key);
        let at = found.map_or_else(|| self.answer.begin(key), Ok)?;
        let draft = &mut self.answer.calls[at];
        if !self.thoughts.is_empty() {
            let thoughts: Vec<_> = self.thoughts.drain(..).map(|it| it.json()).collect();
            draft.call.opaque = opaque::pack(&self.name, &thoughts);
        }
        draft.call.add_name(&start.text("name")?.into_text())?;
        // For servers that send no parts.
        match start.get("input") {
            Some(input) => draft.set(Some(input)),
            None => draft.call.set("{}"),
        }
    }

    fn delta(&mut self, place: &str, delta: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        self.answer.say(&delta.text("text")?, text);
        if self.others.contains(place) {
            return Ok(());
        }
        if let Some(thought) = self.thoughts.iter_mut().rfind(|it| it.place == place) {
            thought.push(delta);
        }
        match delta.get("partial_json").filter(|it| !it.is_empty_text()) {
            None => Ok(()),
            Some(part) => match self.answer.continued(|it| place.is_empty() || it.key.place == place)? {
                Some(at) => self.answer.calls[at].call.take(part),
                None => Err(Fault::Malformed("it has arguments of a call that did not begin".to_owned())),
            },
        }
    }

    fn count(&mut self, usage: &Object<'_>) {
        let input = usage.sum(&["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]);
        // Some servers know it only at the end.
        self.tokens.input = self.tokens.input.max(input);
        self.tokens.output = usage.count("output_tokens").unwrap_or(self.tokens.output);
    }
}

impl Fold for AnthropicFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let event = Json::parse(&frame.data)?.object()?;
        if event.get("error").is_some() {
            return Err(Fault::Failed(Said::of_json(&frame.data).unwrap_or_else(|| Said::unexplained(""))));
        }
        let usage = event.object("message").and_then(|it| it.object("usage")).or(event.object("usage"));
        usage.iter().for_each(|usage| self.count(usage));
        let kind = event.get("type").and_then(Json::word);
        let part = |name: &str| event.get(name).map(Json::object).transpose();
        match kind.as_deref().unwrap_or(&frame.event) {
            "content_block_start" => match part("content_block")? {
                Some(start) => self.start(event.place("index"), &start, text),
                None => Ok(()),
            },
            "content_block_delta" => match part("delta")? {
                Some(delta) => self.delta(&event.place("index"), &delta, text),
                None => Ok(()),
            },
            "content_block_stop" => {
                let place = event.place("index");
                let ended = self.answer.last(|it| !place.is_empty() && it.key.place == place);
                ended.into_iter().for_each(|at| self.answer.calls[at].is_ended = true);
                Ok(())
            }
            "message_delta" => {
                match part("delta")?.map(|it| it.word("stop_reason")).as_deref() {
                    Some("max_tokens" | "model_context_window_exceeded") => self.stop = Stop::Length,
                    Some("refusal") => self.stop = Stop::Refused,
                    _ => {}
                }
                Ok(())
            }
            "message_stop" => {
                self.over = true;
                Ok(())
            }
            "error" => Err(Fault::Failed(Said::unexplained(""))),
            _ => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.over
    }

    fn finish(self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<Reply, Fault> {
        if !self.over {
            return Err(Fault::CutOff);
        }
        self.answer.finish(self.stop, self.tokens, text)
    }
}
