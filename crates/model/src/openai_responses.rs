//! The wire format of OpenAI's Responses API. The provider stores nothing, so reasoning is exchanged in encrypted
//! form. Does no I/O.
//!
//! <https://platform.openai.com/docs/api-reference/responses>

mod fold;
#[cfg(test)]
mod tests;

use openskill_proto::v1::Dialect;
use serde_json::json;
use serde_json::value::RawValue;

use self::fold::{Reasoning, ResponsesFold};
use crate::calls::{as_object, wire_id, wire_name};
use crate::message::{Message, Picture};
use crate::model::ModelRequest;
use crate::opaque;
use crate::wire::{Fields, Fold, Wire, raw, tools, turn_start};

/// The wire format for a model.
#[derive(Debug)]
pub(crate) struct OpenAiResponses {
    /// The provider's name for the model.
    pub(crate) model: String,
    /// The name with the provider prefix, to which opaque data is bound.
    pub(crate) name: String,
}

impl Wire for OpenAiResponses {
    fn dialect(&self) -> Dialect {
        Dialect::OpenaiResponses
    }

    fn body(&self, request: &ModelRequest, with_opaque: bool) -> Vec<u8> {
        let start = turn_start(&request.messages);
        let mut input = Vec::with_capacity(request.messages.len());
        for (at, message) in request.messages.iter().enumerate() {
            self.add(message, with_opaque && at >= start, &mut input);
        }
        let tools = tools(request);
        let body = Fields::default()
            .with("model", &self.model)
            .with("stream", true)
            .with("store", false)
            .with("include", reasons(&self.model).then_some(["reasoning.encrypted_content"]))
            .with("instructions", (!request.system.is_empty()).then_some(&request.system))
            .with("max_output_tokens", (request.max_tokens > 0).then_some(request.max_tokens.max(MIN_OUTPUT_TOKENS)))
            .with("temperature", request.temperature)
            .with("tool_choice", (tools.is_some() && !request.may_call).then_some("none"))
            .with("tools", tools)
            .with("input", input);
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::new(ResponsesFold::new(self.name.clone()))
    }
}

/// The minimum token limit that the provider accepts.
const MIN_OUTPUT_TOKENS: u32 = 16;

/// Returns whether this is a reasoning model. Other models reject requests for encrypted content.
fn reasons(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or_default();
    let digit = |rest: &str| rest.chars().next().and_then(|it| it.to_digit(10));
    let is_o = model.strip_prefix('o').and_then(digit).is_some();
    let is_gpt = model.strip_prefix("gpt-").and_then(digit).is_some_and(|it| it >= 5);
    (is_o || is_gpt || model.starts_with("codex")) && !model.contains("-chat")
}

impl OpenAiResponses {
    fn add(&self, message: &Message, with_opaque: bool, input: &mut Vec<Box<RawValue>>) {
        match message {
            Message::User(text) => input.push(raw(Fields::message("user", text))),
            Message::Assistant { text, calls } => {
                let said = || (!text.is_empty()).then(|| raw(Fields::message("assistant", text)));
                for (at, call) in calls.iter().enumerate() {
                    let gave: Option<Vec<Reasoning<'_>>> =
                        opaque::unpack(&self.name, &call.opaque).filter(|_| with_opaque);
                    input.extend(gave.into_iter().flatten().map(raw));
                    input.extend(said().filter(|_| at == 0));
                    // Omit the item id, which the provider would look up in its store.
                    input.push(raw(json!({
                        "type": "function_call",
                        "call_id": wire_id(&call.id),
                        "name": wire_name(&call.name),
                        "arguments": as_object(&call.arguments).get(),
                    })));
                }
                input.extend(said().filter(|_| calls.is_empty()));
            }
            Message::Results(results) => {
                input.extend(results.iter().map(|it| {
                    let call_id = wire_id(&it.call_id);
                    raw(json!({"type": "function_call_output", "call_id": call_id, "output": it.content}))
                }));
                let text = |text: String| json!({"type": "input_text", "text": text});
                let picture = |it: &Picture| json!({"type": "input_image", "image_url": it.data_url()});
                let parts: Vec<_> = results.iter().flat_map(|it| it.picture_parts(text, picture)).collect();
                input.extend((!parts.is_empty()).then(|| raw(Fields::message("user", parts))));
            }
        }
    }
}
