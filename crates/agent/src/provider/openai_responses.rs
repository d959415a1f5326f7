//! OpenAI Responses. Nothing is stored at the provider: what its model reasoned comes and goes back encrypted. Pure.
//!
//! <https://platform.openai.com/docs/api-reference/responses>

mod fold;
#[cfg(test)]
mod tests;

use openskill_proto::v1::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;

use self::fold::{Reasoning, ResponsesFold};
use super::calls::{as_object, wire_id, wire_name};
use super::model::Request;
use super::opaque;
use super::wire::{Fold, Wire, tools, turn_start};
use crate::message::{Message, ModelCall, ModelResult};

/// The format, for one model.
#[derive(Debug)]
pub(super) struct OpenAiResponses {
    /// As the server knows it.
    pub(super) model: String,
    /// With the provider's name, to which what it gives back is bound.
    pub(super) name: String,
}

impl Wire for OpenAiResponses {
    fn dialect(&self) -> Dialect {
        Dialect::OpenaiResponses
    }

    fn body(&self, request: &Request, kept: bool) -> Vec<u8> {
        let start = turn_start(&request.messages);
        let mut input = Vec::with_capacity(request.messages.len());
        for (at, message) in request.messages.iter().enumerate() {
            self.add(message, kept && at >= start, &mut input);
        }
        let tools = tools(request);
        let body = Body {
            model: &self.model,
            stream: true,
            store: false,
            include: if reasons(&self.model) { &["reasoning.encrypted_content"] } else { &[] },
            instructions: (!request.system.is_empty()).then_some(&request.system),
            max_output_tokens: (request.max_tokens > 0).then_some(request.max_tokens.max(MIN_OUTPUT_TOKENS)),
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

/// The provider refuses less.
const MIN_OUTPUT_TOKENS: u32 = 16;

/// Whether a model reasons: any other refuses to be asked for encrypted content.
fn reasons(model: &str) -> bool {
    let model = model.rsplit('/').next().unwrap_or_default();
    let digit = |rest: &str| rest.chars().next().and_then(|it| it.to_digit(10));
    let is_o = model.strip_prefix('o').and_then(digit).is_some();
    let is_gpt = model.strip_prefix("gpt-").and_then(digit).is_some_and(|it| it >= 5);
    (is_o || is_gpt || model.starts_with("codex")) && !model.contains("-chat")
}

impl OpenAiResponses {
    fn add<'a>(&self, message: &'a Message, kept: bool, input: &mut Vec<Item<'a>>) {
        match message {
            Message::User(text) => input.push(Item::Message { role: "user", content: text }),
            Message::Assistant { text, calls } => {
                let said = || (!text.is_empty()).then_some(Item::Message { role: "assistant", content: text });
                for (at, call) in calls.iter().enumerate() {
                    let gave: Option<Vec<Reasoning<'_>>> = opaque::unpack(&self.name, &call.opaque).filter(|_| kept);
                    input.extend(gave.into_iter().flatten().map(Item::Reasoning));
                    input.extend(said().filter(|_| at == 0));
                    input.push(Item::of(call));
                }
                input.extend(said().filter(|_| calls.is_empty()));
            }
            Message::Results(results) => {
                input.extend(results.iter().map(|result| Item::Output {
                    r#type: "function_call_output",
                    call_id: wire_id(&result.call_id).into_owned(),
                    output: &result.content,
                }));
                let content: Vec<Part> = results.iter().flat_map(Part::of).collect();
                input.extend((!content.is_empty()).then_some(Item::Pictures { role: "user", content }));
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
    tool_choice: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<&'a RawValue>,
    input: Vec<Item<'a>>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Item<'a> {
    Message { role: &'a str, content: &'a str },
    Pictures { role: &'a str, content: Vec<Part> },
    Reasoning(Reasoning<'a>),
    Call { r#type: &'a str, call_id: String, name: String, arguments: String },
    Output { r#type: &'a str, call_id: String, output: &'a str },
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Part {
    InputText { text: String },
    InputImage { image_url: String },
}

impl Part {
    /// The pictures of a result, after what they are.
    fn of(result: &ModelResult) -> Vec<Self> {
        let text = (!result.pictures.is_empty()).then(|| Self::InputText { text: result.caption() });
        let pictures = result.pictures.iter().map(|it| Self::InputImage { image_url: it.data_url() });
        text.into_iter().chain(pictures).collect()
    }
}

impl Item<'_> {
    /// Without the item's own id, which would be looked up in the provider's store.
    fn of(call: &ModelCall) -> Self {
        Self::Call {
            r#type: "function_call",
            call_id: wire_id(&call.id).into_owned(),
            name: wire_name(&call.name).into_owned(),
            arguments: as_object(&call.arguments).get().to_owned(),
        }
    }
}
