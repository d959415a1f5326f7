//! The wire format of Anthropic's Messages API. Does no I/O.
//!
//! <https://docs.anthropic.com/en/api/messages>

mod fold;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use openskill_proto::v1::Dialect;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::fold::AnthropicFold;
use crate::calls::{as_object, wire_id, wire_name};
use crate::message::{Message, ModelResult};
use crate::model::ModelRequest;
use crate::opaque;
use crate::wire::{Fields, Fold, RoleMessage, Wire, add_parts, raw, tools, turn_start};

/// The default limit, because the provider rejects requests without one.
const DEFAULT_MAX_TOKENS: u32 = 8192;

/// The wire format for a model.
#[derive(Debug)]
pub(crate) struct Anthropic {
    /// The provider's name for the model.
    pub(crate) model: String,
    /// The name with the provider prefix, to which opaque data is bound.
    pub(crate) name: String,
}

impl Wire for Anthropic {
    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn body(&self, request: &ModelRequest, with_opaque: bool) -> Vec<u8> {
        let start = turn_start(&request.messages);
        let mut messages = Vec::with_capacity(request.messages.len());
        for (at, message) in request.messages.iter().enumerate() {
            self.add(message, with_opaque && at >= start, &mut messages);
        }
        let messages: Vec<_> = messages.into_iter().map(|it| Fields::message(it.role, it.parts)).collect();
        let named;
        let tools = match tools(request) {
            Some(tools) => tools,
            None => {
                named = history_tools(&request.messages);
                named.iter().map(|it| &**it).collect()
            }
        };
        let may_call = request.may_call && !request.tools.is_empty();
        let body = Fields::default()
            .with("model", &self.model)
            .with("max_tokens", if request.max_tokens == 0 { DEFAULT_MAX_TOKENS } else { request.max_tokens })
            .with("stream", true)
            .with("system", (!request.system.trim().is_empty()).then_some(&request.system))
            .with("temperature", request.temperature)
            .with("tool_choice", (!tools.is_empty() && !may_call).then(|| json!({"type": "none"})))
            .with("tools", (!tools.is_empty()).then_some(tools))
            .with("messages", messages);
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::new(AnthropicFold::new(self.name.clone()))
    }
}

impl Anthropic {
    fn add(&self, message: &Message, with_opaque: bool, messages: &mut Vec<RoleMessage>) {
        match message {
            Message::User(text) => add_parts(messages, "user", vec![raw(text_block(text))]),
            Message::Assistant { text, calls } => {
                let mut blocks = Vec::with_capacity(calls.len() + 1);
                // The provider rejects empty text.
                let said = || (!text.trim().is_empty()).then(|| raw(text_block(text)));
                for (at, call) in calls.iter().enumerate() {
                    // Thinking blocks, as the provider sent them.
                    let gave: Option<Vec<&RawValue>> = opaque::unpack(&self.name, &call.opaque).filter(|_| with_opaque);
                    blocks.extend(gave.into_iter().flatten().map(ToOwned::to_owned));
                    blocks.extend(said().filter(|_| at == 0));
                    let tool_use = Fields::default()
                        .with("type", "tool_use")
                        .with("id", wire_id(&call.id))
                        .with("name", wire_name(&call.name))
                        .with("input", as_object(&call.arguments));
                    blocks.push(raw(tool_use));
                }
                blocks.extend(said().filter(|_| calls.is_empty()));
                add_parts(messages, "assistant", blocks);
            }
            Message::Results(results) => add_parts(messages, "user", results.iter().map(result_block).collect()),
        }
    }
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn result_block(result: &ModelResult) -> Box<RawValue> {
    // The provider accepts only text in failed results.
    let content = if result.pictures.is_empty() || result.is_error {
        raw(&result.content)
    } else {
        let pictures = result.pictures.iter().map(|it| {
            let source = Fields::default().with("type", "base64").with("media_type", &*it.media_type);
            raw(Fields::default().with("type", "image").with("source", source.with("data", &*it.base64)))
        });
        raw(std::iter::once(raw(text_block(&result.content))).chain(pictures).collect::<Vec<_>>())
    };
    let block = Fields::default()
        .with("type", "tool_result")
        .with("tool_use_id", wire_id(&result.call_id))
        .with("content", content)
        .with("is_error", result.is_error.then_some(true));
    raw(block)
}

/// Returns definitions for the tools in the history, because the provider rejects a history with calls but no
/// definitions.
fn history_tools(messages: &[Message]) -> Vec<Box<RawValue>> {
    let calls = messages.iter().flat_map(Message::calls);
    let names: BTreeSet<_> = calls.map(|call| wire_name(&call.name)).collect();
    let define = |name| json!({"name": name, "input_schema": {"type": "object"}});
    names.iter().map(define).map(raw).collect()
}
