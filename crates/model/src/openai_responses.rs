//! The wire format of OpenAI's Responses API. The provider stores nothing, so reasoning is exchanged in encrypted
//! form. Does no I/O.
//!
//! <https://platform.openai.com/docs/api-reference/responses>

mod fold;
#[cfg(test)]
mod tests;

use openskill_proto::v1::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;

use self::fold::{Reasoning, ResponsesFold};
use crate::calls::{as_object, wire_id, wire_name};
use crate::message::{Message, Picture};
use crate::model::ModelRequest;
use crate::opaque;
use crate::wire::{Fold, Wire, tools, turn_start};

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
        let body = Body {
            model: &self.model,
            stream: true,
            store: false,
            include: if reasons(&self.model) { &["reasoning.encrypted_content"] } else { &[] },
            instructions: (!request.system.is_empty()).then_some(&request.system),
            max_output_tokens: (request.max_tokens > 0).then_some(request.max_tokens.max(MIN_OUTPUT_TOKENS)),
            temperature: request.temperature,
            tool_choice: (!tools.is_empty() && !request.may_call).then_some("none"),
            tools,
            input,
        };
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
    fn add<'a>(&self, message: &'a Message, with_opaque: bool, input: &mut Vec<InputItem<'a>>) {
        match message {
            Message::User(text) => input.push(InputItem::Message { role: "user", content: text }),
            Message::Assistant { text, calls } => {
                let said = || (!text.is_empty()).then_some(InputItem::Message { role: "assistant", content: text });
                for (at, call) in calls.iter().enumerate() {
                    let gave: Option<Vec<Reasoning<'_>>> =
                        opaque::unpack(&self.name, &call.opaque).filter(|_| with_opaque);
                    input.extend(gave.into_iter().flatten().map(InputItem::Reasoning));
                    input.extend(said().filter(|_| at == 0));
                    // Omit the item id, which the provider would look up in its store.
                    input.push(InputItem::Call {
                        r#type: "function_call",
                        call_id: wire_id(&call.id).into_owned(),
                        name: wire_name(&call.name).into_owned(),
                        arguments: as_object(&call.arguments).get().to_owned(),
                    });
                }
                input.extend(said().filter(|_| calls.is_empty()));
            }
            Message::Results(results) => {
                input.extend(results.iter().map(|result| InputItem::Output {
                    r#type: "function_call_output",
                    call_id: wire_id(&result.call_id).into_owned(),
                    output: &result.content,
                }));
                let text = |text| InputPart::InputText { text };
                let picture = |it: &Picture| InputPart::InputImage { image_url: it.data_url() };
                let content: Vec<_> = results.iter().flat_map(|it| it.picture_parts(text, picture)).collect();
                input.extend((!content.is_empty()).then_some(InputItem::Pictures { role: "user", content }));
            }
        }
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    stream: bool,
    store: bool,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    include: &'a [&'a str],
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_output_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<&'a RawValue>,
    input: Vec<InputItem<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum InputItem<'a> {
    Message { role: &'a str, content: &'a str },
    Pictures { role: &'a str, content: Vec<InputPart> },
    Reasoning(Reasoning<'a>),
    Call { r#type: &'a str, call_id: String, name: String, arguments: String },
    Output { r#type: &'a str, call_id: String, output: &'a str },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum InputPart {
    InputText { text: String },
    InputImage { image_url: String },
}
