//! Puts the events of a message together.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::message::Tokens;
use crate::provider::calls::{self, Partial};
use crate::provider::failure::Said;
use crate::provider::frames::Frame;
use crate::provider::model::{Reply, Stop};
use crate::provider::opaque;
use crate::provider::wire::{Fault, Fold};

/// How many blocks of thought an answer may have.
const MAX_THOUGHTS: usize = 256;

/// A message so far.
#[derive(Default)]
pub(super) struct AnthropicFold {
    name: String,
    text: String,
    calls: Vec<Block>,
    /// Thoughts that no call follows yet.
    thoughts: Vec<Thought>,
    tokens: Tokens,
    stop: Stop,
    over: bool,
}

/// A call, under the index of its block.
struct Block {
    index: Option<u64>,
    call: Partial,
    /// The arguments as the block's start has them: for servers that send no parts.
    input: String,
}

/// A block of thought. It goes back as it came, or is refused.
#[derive(Default)]
struct Thought {
    index: Option<u64>,
    thinking: String,
    signature: String,
    /// The text of one that is encrypted.
    data: Option<String>,
}

impl Thought {
    fn json(&self) -> serde_json::Value {
        match &self.data {
            Some(data) => serde_json::json!({"type": "redacted_thinking", "data": data}),
            None => serde_json::json!({"type": "thinking", "thinking": self.thinking, "signature": self.signature}),
        }
    }
}

#[derive(Deserialize)]
struct Event<'a> {
    r#type: Option<String>,
    index: Option<u64>,
    message: Option<Message>,
    #[serde(borrow)]
    content_block: Option<Start<'a>>,
    delta: Option<Delta>,
    usage: Option<Usage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message {
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Usage {
    input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
struct Start<'a> {
    r#type: String,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    input: Option<&'a RawValue>,
    thinking: Option<String>,
    signature: Option<String>,
    data: Option<String>,
}

#[derive(Deserialize)]
struct Delta {
    text: Option<String>,
    partial_json: Option<String>,
    thinking: Option<String>,
    signature: Option<String>,
    stop_reason: Option<String>,
}

impl AnthropicFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    fn say(&mut self, said: Option<String>, text: &mut dyn FnMut(&str)) {
        if let Some(said) = said.filter(|it| !it.is_empty()) {
            text(&said);
            self.text.push_str(&said);
        }
    }

    fn start(&mut self, index: Option<u64>, start: Start<'_>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        match start.r#type.as_str() {
            "text" => self.say(start.text, text),
            "tool_use" => {
                let thoughts: Vec<_> = self.thoughts.drain(..).map(|it| it.json()).collect();
                let opaque = if thoughts.is_empty() { String::new() } else { opaque::pack(&self.name, &thoughts) };
                let (id, name) = (start.id.unwrap_or_default(), start.name.unwrap_or_default());
                let input = start.input.map_or("{}", RawValue::get).to_owned();
                let call = Partial { id, name, opaque, ..Partial::default() };
                calls::add(&mut self.calls, Block { index, call, input })?;
            }
            "thinking" | "redacted_thinking" if self.thoughts.len() < MAX_THOUGHTS => {
                let (thinking, signature) = (start.thinking.unwrap_or_default(), start.signature.unwrap_or_default());
                self.thoughts.push(Thought { index, thinking, signature, data: start.data });
            }
            _ => {}
        }
        Ok(())
    }

    fn delta(&mut self, index: Option<u64>, delta: Delta, text: &mut dyn FnMut(&str)) {
        // A block of a kind that is not read has no place.
        if let Some(block) = self.calls.iter_mut().rfind(|it| it.index == index) {
            block.call.push(&delta.partial_json.unwrap_or_default());
        }
        if let Some(thought) = self.thoughts.iter_mut().rfind(|it| it.index == index) {
            thought.thinking.push_str(&delta.thinking.unwrap_or_default());
            thought.signature.push_str(&delta.signature.unwrap_or_default());
        }
        self.say(delta.text, text);
    }

    fn count(&mut self, usage: &Usage) {
        let parts = [usage.input_tokens, usage.cache_creation_input_tokens, usage.cache_read_input_tokens];
        let input = parts.into_iter().flatten().fold(0, u64::saturating_add);
        // Some servers know it only at the end.
        self.tokens.input = self.tokens.input.max(input);
        self.tokens.output = usage.output_tokens.unwrap_or(self.tokens.output);
    }
}

impl Fold for AnthropicFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let event: Event<'_> = serde_json::from_str(&frame.data).map_err(|error| Fault::of_json(&error))?;
        if event.error.is_some_and(|it| it.get() != "null") {
            return Err(Fault::Failed(Said::of_json(&frame.data).unwrap_or_else(|| Said::unexplained(""))));
        }
        let usage = event.message.and_then(|it| it.usage).or(event.usage);
        usage.iter().for_each(|usage| self.count(usage));
        match event.r#type.as_deref().unwrap_or(&frame.event) {
            "content_block_start" => event.content_block.map_or(Ok(()), |start| self.start(event.index, start, text)),
            "content_block_delta" => {
                event.delta.into_iter().for_each(|delta| self.delta(event.index, delta, text));
                Ok(())
            }
            "message_delta" => {
                match event.delta.and_then(|it| it.stop_reason).as_deref() {
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

    fn finish(self: Box<Self>) -> Result<Reply, Fault> {
        if !self.over {
            return Err(Fault::CutOff);
        }
        let stop = self.stop;
        let last = self.calls.len().saturating_sub(1);
        let whole = |(at, mut block): (usize, Block)| {
            // Without a part, the limit may have come before the first one.
            if block.call.arguments.is_empty() && !(stop == Stop::Length && at == last && block.input == "{}") {
                block.call.push(&block.input);
            }
            block.call
        };
        let calls = self.calls.into_iter().enumerate().map(whole).collect();
        Ok(Reply { text: self.text, calls: calls::finished(calls, stop), tokens: self.tokens, stop })
    }
}
