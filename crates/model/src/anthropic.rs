//! The wire format of Anthropic's Messages API. Does no I/O.
//!
//! <https://docs.anthropic.com/en/api/messages>

mod fold;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use openskill_proto::v1::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::fold::AnthropicFold;
use crate::calls::{as_object, wire_id, wire_name};
use crate::message::{Message, ModelResult};
use crate::model::ModelRequest;
use crate::opaque;
use crate::wire::{Fold, Wire, tools, turn_start};

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
        let named;
        let mut tools = tools(request);
        if tools.is_empty() {
            named = history_tools(&request.messages);
            tools.extend(named.iter().map(|it| &**it));
        }
        let may_call = request.may_call && !request.tools.is_empty();
        let body = Body {
            model: &self.model,
            max_tokens: if request.max_tokens == 0 { DEFAULT_MAX_TOKENS } else { request.max_tokens },
            stream: true,
            system: (!request.system.trim().is_empty()).then_some(&request.system),
            temperature: request.temperature,
            tool_choice: (!tools.is_empty() && !may_call).then(|| json!({"type": "none"})),
            tools,
            messages,
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::new(AnthropicFold::new(self.name.clone()))
    }
}

impl Anthropic {
    fn add<'a>(&self, message: &'a Message, with_opaque: bool, messages: &mut Vec<WireMessage<'a>>) {
        let (role, blocks) = match message {
            Message::User(text) => ("user", vec![Block::Text { text }]),
            Message::Assistant { text, calls } => {
                let mut blocks = Vec::with_capacity(calls.len() + 1);
                // The provider rejects empty text.
                let said = || (!text.trim().is_empty()).then(|| Block::Text { text });
                for (at, call) in calls.iter().enumerate() {
                    let gave: Option<Vec<&RawValue>> = opaque::unpack(&self.name, &call.opaque).filter(|_| with_opaque);
                    blocks.extend(gave.into_iter().flatten().map(Block::Thinking));
                    blocks.extend(said().filter(|_| at == 0));
                    blocks.push(Block::ToolUse {
                        id: wire_id(&call.id).into_owned(),
                        name: wire_name(&call.name).into_owned(),
                        input: as_object(&call.arguments),
                    });
                }
                blocks.extend(said().filter(|_| calls.is_empty()));
                ("assistant", blocks)
            }
            Message::Results(results) => {
                let block = |result: &'a ModelResult| Block::ToolResult {
                    tool_use_id: wire_id(&result.call_id).into_owned(),
                    content: Content::from_result(result),
                    is_error: result.is_error,
                };
                ("user", results.iter().map(block).collect())
            }
        };
        match messages.last_mut() {
            _ if blocks.is_empty() => {}
            // Roles must alternate, so consecutive messages with the same role are merged.
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => messages.push(WireMessage { role, content: blocks }),
        }
    }
}

/// Returns definitions for the tools in the history, because the provider rejects a history with calls but no
/// definitions.
fn history_tools(messages: &[Message]) -> Vec<Box<RawValue>> {
    let calls = messages.iter().flat_map(Message::calls);
    let names: BTreeSet<_> = calls.map(|call| wire_name(&call.name)).collect();
    let define = |name| json!({"name": name, "input_schema": {"type": "object"}});
    names.iter().map(define).filter_map(|tool| serde_json::value::to_raw_value(&tool).ok()).collect()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<&'a RawValue>,
    messages: Vec<WireMessage<'a>>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'a str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    ToolUse {
        id: String,
        name: String,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: String,
        content: Content<'a>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A thinking block as the provider sent it.
    #[serde(untagged)]
    Thinking(&'a RawValue),
}

/// The content of a result: text only, or text and pictures.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Blocks(Vec<Block<'a>>),
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

impl<'a> Content<'a> {
    fn from_result(result: &'a ModelResult) -> Self {
        // The provider accepts only text in failed results.
        if result.pictures.is_empty() || result.is_error {
            return Self::Text(&result.content);
        }
        let pictures = result.pictures.iter().map(|it| Block::Image {
            source: Source { r#type: "base64", media_type: &it.media_type, data: &it.base64 },
        });
        Self::Blocks(std::iter::once(Block::Text { text: &result.content }).chain(pictures).collect())
    }
}
