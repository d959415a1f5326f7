//! The wire format of OpenAI chat completions, with the deviations of compatible servers: DashScope, vLLM, Ollama,
//! llama.cpp. Does no I/O.
//!
//! <https://platform.openai.com/docs/api-reference/chat>

mod fold;
#[cfg(test)]
mod tests;

use openskill_proto::v1::Dialect;
use serde_json::json;

use self::fold::{ChatFold, ChatOpaqueData};
use crate::calls::{as_object, wire_id, wire_name};
use crate::message::{Message, Picture};
use crate::model::ModelRequest;
use crate::opaque;
use crate::wire::{Fields, Fold, Wire, tools};

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
            messages.push(Fields::message("system", &request.system));
        }
        for message in &request.messages {
            self.add(message, with_opaque, &mut messages);
        }
        let tools = tools(request);
        let max_tokens = (request.max_tokens > 0).then_some(request.max_tokens);
        let is_openai = self.flavour == Flavour::OpenAi;
        let body = Fields::default()
            .with("model", &self.model)
            .with("stream", true)
            .with("stream_options", json!({"include_usage": true}))
            .with("max_tokens", max_tokens.filter(|_| !is_openai))
            .with("max_completion_tokens", max_tokens.filter(|_| is_openai))
            .with("temperature", request.temperature)
            .with("parallel_tool_calls", (self.flavour == Flavour::DashScope && tools.is_some()).then_some(true))
            .with("tool_choice", (tools.is_some() && !request.may_call).then_some("none"))
            .with("tools", tools)
            .with("messages", messages);
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::new(ChatFold::new(self.name.clone()))
    }
}

impl OpenAiChat {
    /// Adds a message. Its content is a string even if it is empty, because some servers reject null.
    fn add(&self, message: &Message, with_opaque: bool, messages: &mut Vec<Fields>) {
        match message {
            Message::User(text) => messages.push(Fields::message("user", text)),
            Message::Assistant { text, calls } if text.is_empty() && calls.is_empty() => {}
            Message::Assistant { text, calls } => {
                let mut sent = Vec::with_capacity(calls.len());
                let mut gave: ChatOpaqueData<'_> = ChatOpaqueData::default();
                for call in calls {
                    let own: ChatOpaqueData<'_> =
                        opaque::unpack(&self.name, &call.opaque).filter(|_| with_opaque).unwrap_or_default();
                    let arguments = as_object(&call.arguments);
                    let fields = Fields::default()
                        .with("id", wire_id(&call.id))
                        .with("type", "function")
                        .with("function", json!({"name": wire_name(&call.name), "arguments": arguments.get()}))
                        .with("extra_content", own.extra_content);
                    sent.push(fields);
                    gave = if gave.is_empty() { own } else { gave };
                }
                let message = Fields::message("assistant", text)
                    .with("reasoning_content", gave.reasoning_content)
                    .with("reasoning", gave.reasoning)
                    .with("tool_calls", (!sent.is_empty()).then_some(sent));
                messages.push(message);
            }
            Message::Results(results) => {
                messages.extend(results.iter().map(|result| {
                    Fields::message("tool", &result.content).with("tool_call_id", wire_id(&result.call_id))
                }));
                // In this format, results only contain text. Pictures follow after all results.
                let text = |text: String| json!({"type": "text", "text": text});
                let picture = |it: &Picture| json!({"type": "image_url", "image_url": {"url": it.data_url()}});
                let parts: Vec<_> = results.iter().flat_map(|it| it.picture_parts(text, picture)).collect();
                messages.extend((!parts.is_empty()).then(|| Fields::message("user", parts)));
            }
        }
    }
}
