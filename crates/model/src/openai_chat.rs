//! The wire format of OpenAI chat completions, with the deviations of compatible servers: DashScope, vLLM, Ollama,
//! llama.cpp. Does no I/O.
//!
//! <https://platform.openai.com/docs/api-reference/chat>

mod fold;
#[cfg(test)]
mod tests;

use openskill_proto::v1::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::fold::{ChatFold, ChatOpaqueData};
use crate::calls::{as_object, wire_id, wire_name};
use crate::message::{Message, Picture};
use crate::model::ModelRequest;
use crate::opaque;
use crate::wire::{Fold, Wire, tools};

/// The variants of the OpenAI chat format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flavour {
    /// OpenAI, whose reasoning models reject `max_tokens`.
    OpenAi,
    /// Alibaba DashScope, which returns parallel calls only on request.
    DashScope,
    /// Any other compatible server.
    Compatible,
}

/// The wire format for a model.
#[derive(Debug)]
pub(crate) struct OpenAiChat {
    /// The provider's name for the model.
    pub(crate) model: String,
    /// The name with the provider prefix, to which opaque data is bound.
    pub(crate) name: String,
    pub(crate) flavour: Flavour,
}

impl Wire for OpenAiChat {
    fn dialect(&self) -> Dialect {
        if self.flavour == Flavour::DashScope { Dialect::Dashscope } else { Dialect::Openai }
    }

    fn body(&self, request: &ModelRequest, with_opaque: bool) -> Vec<u8> {
        let mut messages = Vec::with_capacity(request.messages.len() + 1);
        if !request.system.is_empty() {
            messages.push(ChatMessage::text("system", &request.system));
        }
        for message in &request.messages {
            self.add(message, with_opaque, &mut messages);
        }
        let tools = tools(request);
        let max_tokens = (request.max_tokens > 0).then_some(request.max_tokens);
        let is_openai = self.flavour == Flavour::OpenAi;
        let body = Body {
            model: &self.model,
            stream: true,
            stream_options: json!({"include_usage": true}),
            max_tokens: max_tokens.filter(|_| !is_openai),
            max_completion_tokens: max_tokens.filter(|_| is_openai),
            temperature: request.temperature,
            parallel_tool_calls: (self.flavour == Flavour::DashScope && !tools.is_empty()).then_some(true),
            tool_choice: (!tools.is_empty() && !request.may_call).then_some("none"),
            tools,
            messages,
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::new(ChatFold::new(self.name.clone()))
    }
}

impl OpenAiChat {
    fn add<'a>(&self, message: &'a Message, with_opaque: bool, messages: &mut Vec<ChatMessage<'a>>) {
        match message {
            Message::User(text) => messages.push(ChatMessage::text("user", text)),
            Message::Assistant { text, calls } if text.is_empty() && calls.is_empty() => {}
            Message::Assistant { text, calls } => {
                let mut sent = ChatMessage::text("assistant", text);
                let mut gave: ChatOpaqueData<'_> = ChatOpaqueData::default();
                for call in calls {
                    let own: ChatOpaqueData<'_> =
                        opaque::unpack(&self.name, &call.opaque).filter(|_| with_opaque).unwrap_or_default();
                    sent.tool_calls.push(ChatToolCall {
                        id: wire_id(&call.id).into_owned(),
                        r#type: "function",
                        function: json!({"name": wire_name(&call.name), "arguments": as_object(&call.arguments).get()}),
                        extra_content: own.extra_content,
                    });
                    gave = if gave.is_empty() { own } else { gave };
                }
                (sent.reasoning_content, sent.reasoning) = (gave.reasoning_content, gave.reasoning);
                messages.push(sent);
            }
            Message::Results(results) => {
                messages.extend(results.iter().map(|result| {
                    let id = wire_id(&result.call_id).into_owned();
                    ChatMessage { tool_call_id: Some(id), ..ChatMessage::text("tool", &result.content) }
                }));
                // In this format, results only contain text. Pictures follow after all results.
                let text = |text| ChatContentPart::Text { text };
                let picture = |it: &Picture| ChatContentPart::ImageUrl { image_url: ImageUrl { url: it.data_url() } };
                let parts: Vec<_> = results.iter().flat_map(|it| it.picture_parts(text, picture)).collect();
                messages.extend(
                    (!parts.is_empty())
                        .then(|| ChatMessage { content: Content::Parts(parts), ..ChatMessage::text("user", "") }),
                );
            }
        }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<&'a RawValue>,
    messages: Vec<ChatMessage<'a>>,
}

/// A message. Its content is a string even if it is empty, because some servers reject null.
#[derive(Serialize)]
struct ChatMessage<'a> {
    role: &'a str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ChatToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

impl<'a> ChatMessage<'a> {
    fn text(role: &'a str, content: &'a str) -> Self {
        let (content, tool_calls) = (Content::Text(content), Vec::new());
        Self { role, content, reasoning_content: None, reasoning: None, tool_calls, tool_call_id: None }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<ChatContentPart>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum ChatContentPart {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

#[derive(Serialize)]
struct ChatToolCall<'a> {
    id: String,
    r#type: &'a str,
    function: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a RawValue>,
}
