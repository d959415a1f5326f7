//! Anthropic Messages. Pure.
//!
//! <https://docs.anthropic.com/en/api/messages>

mod fold;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use openskill_proto::v1::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;

use self::fold::AnthropicFold;
use super::calls::{as_object, wire_id, wire_name};
use super::model::Request;
use super::opaque;
use super::wire::{Fold, Wire, tools, turn_start};
use crate::message::{Message, ModelResult};

/// The provider refuses a request without a limit.
const DEFAULT_MAX_TOKENS: u32 = 8192;

/// The format, for one model.
#[derive(Debug)]
pub(super) struct Anthropic {
    /// As the server knows it.
    pub(super) model: String,
    /// With the provider's name, to which what it gives back is bound.
    pub(super) name: String,
}

impl Wire for Anthropic {
    fn dialect(&self) -> Dialect {
        Dialect::Anthropic
    }

    fn body(&self, request: &Request, kept: bool) -> Vec<u8> {
        let start = turn_start(&request.messages);
        let mut messages = Vec::with_capacity(request.messages.len());
        for (at, message) in request.messages.iter().enumerate() {
            self.add(message, kept && at >= start, &mut messages);
        }
        let named;
        let mut tools = tools(request);
        if tools.is_empty() {
            named = called(&request.messages);
            tools.extend(named.iter().map(|it| &**it));
        }
        let may_call = request.may_call && !request.tools.is_empty();
        let body = Body {
            model: &self.model,
            max_tokens: if request.max_tokens == 0 { DEFAULT_MAX_TOKENS } else { request.max_tokens },
            stream: true,
            system: (!request.system.trim().is_empty()).then_some(&request.system),
            tool_choice: (!tools.is_empty() && !may_call).then_some(Choice { r#type: "none" }),
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
    fn add<'a>(&self, message: &'a Message, kept: bool, messages: &mut Vec<Sent<'a>>) {
        let (role, blocks) = match message {
            Message::User(text) => ("user", vec![Block::text(text)]),
            Message::Assistant { text, calls } => {
                let mut blocks = Vec::with_capacity(calls.len() + 1);
                // The provider refuses empty text.
                let said = || (!text.trim().is_empty()).then(|| Block::text(text));
                for (at, call) in calls.iter().enumerate() {
                    let gave: Option<Vec<&RawValue>> = opaque::unpack(&self.name, &call.opaque).filter(|_| kept);
                    blocks.extend(gave.into_iter().flatten().map(Block::Thinking));
                    blocks.extend(said().filter(|_| at == 0));
                    blocks.push(Block::Call(ToolUse {
                        r#type: "tool_use",
                        id: wire_id(&call.id).into_owned(),
                        name: wire_name(&call.name).into_owned(),
                        input: as_object(&call.arguments),
                    }));
                }
                blocks.extend(said().filter(|_| calls.is_empty()));
                ("assistant", blocks)
            }
            Message::Results(results) => {
                let block = |result: &'a ModelResult| {
                    Block::Result(ToolResult {
                        r#type: "tool_result",
                        tool_use_id: wire_id(&result.call_id).into_owned(),
                        content: Content::of(result),
                        is_error: result.is_error,
                    })
                };
                ("user", results.iter().map(block).collect())
            }
        };
        match messages.last_mut() {
            _ if blocks.is_empty() => {}
            // Roles alternate.
            Some(last) if last.role == role => last.content.extend(blocks),
            _ => messages.push(Sent { role, content: blocks }),
        }
    }
}

/// Definitions of the tools that the history names: the provider refuses calls in it without any.
fn called(messages: &[Message]) -> Vec<Box<RawValue>> {
    let calls = messages.iter().flat_map(|it| match it {
        Message::Assistant { calls, .. } => &calls[..],
        _ => &[],
    });
    let names: BTreeSet<_> = calls.map(|call| wire_name(&call.name)).collect();
    let define = |name| serde_json::json!({"name": name, "input_schema": {"type": "object"}});
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
    tool_choice: Option<Choice<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<&'a RawValue>,
    messages: Vec<Sent<'a>>,
}

#[derive(Serialize)]
struct Choice<'a> {
    r#type: &'a str,
}

#[derive(Serialize)]
struct Sent<'a> {
    role: &'a str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Block<'a> {
    Text { r#type: &'static str, text: &'a str },
    Thinking(&'a RawValue),
    Call(ToolUse),
    Result(ToolResult<'a>),
}

impl<'a> Block<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { r#type: "text", text }
    }
}

#[derive(Serialize)]
struct ToolUse {
    r#type: &'static str,
    id: String,
    name: String,
    input: Box<RawValue>,
}

#[derive(Serialize)]
struct ToolResult<'a> {
    r#type: &'static str,
    tool_use_id: String,
    content: Content<'a>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    is_error: bool,
}

/// Of a result: text, or text and pictures.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part<'a> {
    Text { text: &'a str },
    Image { source: Source<'a> },
}

#[derive(Serialize)]
struct Source<'a> {
    r#type: &'static str,
    media_type: &'a str,
    data: &'a str,
}

impl<'a> Content<'a> {
    fn of(result: &'a ModelResult) -> Self {
        // The provider takes text alone for failures.
        if result.pictures.is_empty() || result.is_error {
            return Self::Text(&result.content);
        }
        let pictures = result.pictures.iter().map(|it| Part::Image {
            source: Source { r#type: "base64", media_type: &it.media_type, data: &it.base64 },
        });
        Self::Parts(std::iter::once(Part::Text { text: &result.content }).chain(pictures).collect())
    }
}
