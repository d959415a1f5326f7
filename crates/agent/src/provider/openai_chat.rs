//! OpenAI chat completions, and what the servers that imitate them make of it: DashScope, vLLM, Ollama, llama.cpp.
//! Pure.
//!
//! <https://platform.openai.com/docs/api-reference/chat>

mod fold;
#[cfg(test)]
mod tests;

use openskill_proto::v1::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;

use self::fold::{ChatFold, Kept};
use super::calls::{as_object, wire_id, wire_name};
use super::model::Request;
use super::opaque;
use super::wire::{Fold, Wire, tools};
use crate::message::{Message, ModelCall, ModelResult};

/// What the servers of this format differ in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flavour {
    /// OpenAI's own: its reasoning models refuse `max_tokens`.
    OpenAi,
    /// Alibaba's: several calls in one answer must be asked for.
    DashScope,
    /// Any other.
    Compatible,
}

/// The format, for one model.
#[derive(Debug)]
pub(super) struct OpenAiChat {
    /// As the server knows it.
    pub(super) model: String,
    /// With the provider's name, to which what it gives back is bound.
    pub(super) name: String,
    pub(super) flavour: Flavour,
}

impl Wire for OpenAiChat {
    fn dialect(&self) -> Dialect {
        if self.flavour == Flavour::DashScope { Dialect::Dashscope } else { Dialect::Openai }
    }

    fn body(&self, request: &Request, kept: bool) -> Vec<u8> {
        let mut messages = Vec::with_capacity(request.messages.len() + 1);
        if !request.system.is_empty() {
            messages.push(Sent::text("system", &request.system));
        }
        for message in &request.messages {
            self.add(message, kept, &mut messages);
        }
        let tools = tools(request);
        let max_tokens = (request.max_tokens > 0).then_some(request.max_tokens);
        let is_openai = self.flavour == Flavour::OpenAi;
        let body = Body {
            model: &self.model,
            stream: true,
            stream_options: StreamOptions { include_usage: true },
            max_tokens: max_tokens.filter(|_| !is_openai),
            max_completion_tokens: max_tokens.filter(|_| is_openai),
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
    fn add<'a>(&self, message: &'a Message, kept: bool, messages: &mut Vec<Sent<'a>>) {
        match message {
            Message::User(text) => messages.push(Sent::text("user", text)),
            Message::Assistant { text, calls } if text.is_empty() && calls.is_empty() => {}
            Message::Assistant { text, calls } => {
                let mut sent = Sent::text("assistant", text);
                let mut gave: Kept<'_> = Kept::default();
                for call in calls {
                    let own = if kept {
                        opaque::unpack(&self.name, &call.opaque).unwrap_or_default()
                    } else {
                        Kept::default()
                    };
                    sent.tool_calls.push(SentCall::of(call, own.extra_content));
                    gave = if gave.is_empty() { own } else { gave };
                }
                (sent.reasoning_content, sent.reasoning) = (gave.reasoning_content, gave.reasoning);
                messages.push(sent);
            }
            Message::Results(results) => {
                messages.extend(results.iter().map(|result| {
                    let id = wire_id(&result.call_id).into_owned();
                    Sent { tool_call_id: Some(id), ..Sent::text("tool", &result.content) }
                }));
                // Results are text in this format, so pictures follow all of them.
                let parts: Vec<Part> = results.iter().flat_map(Part::of).collect();
                messages.extend(
                    (!parts.is_empty()).then(|| Sent { content: Content::Parts(parts), ..Sent::text("user", "") }),
                );
            }
        }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    stream_options: StreamOptions,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<&'a RawValue>,
    messages: Vec<Sent<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

/// A message. Its content is text even if it is empty: some servers refuse null.
#[derive(Serialize)]
struct Sent<'a> {
    role: &'a str,
    content: Content<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<SentCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<String>,
}

impl<'a> Sent<'a> {
    fn text(role: &'a str, content: &'a str) -> Self {
        let (content, tool_calls) = (Content::Text(content), Vec::new());
        Self { role, content, reasoning_content: None, reasoning: None, tool_calls, tool_call_id: None }
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(&'a str),
    Parts(Vec<Part>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    Text { text: String },
    ImageUrl { image_url: ImageUrl },
}

#[derive(Serialize)]
struct ImageUrl {
    url: String,
}

impl Part {
    /// The pictures of a result, after what they are.
    fn of(result: &ModelResult) -> Vec<Self> {
        let text = (!result.pictures.is_empty()).then(|| Self::Text { text: result.caption() });
        let pictures = result.pictures.iter().map(|it| Self::ImageUrl { image_url: ImageUrl { url: it.data_url() } });
        text.into_iter().chain(pictures).collect()
    }
}

#[derive(Serialize)]
struct SentCall<'a> {
    id: String,
    r#type: &'a str,
    function: SentFunction,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_content: Option<&'a RawValue>,
}

#[derive(Serialize)]
struct SentFunction {
    name: String,
    arguments: String,
}

impl<'a> SentCall<'a> {
    fn of(call: &ModelCall, extra_content: Option<&'a RawValue>) -> Self {
        let arguments = as_object(&call.arguments).get().to_owned();
        let function = SentFunction { name: wire_name(&call.name).into_owned(), arguments };
        Self { id: wire_id(&call.id).into_owned(), r#type: "function", function, extra_content }
    }
}
