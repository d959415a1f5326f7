//! Google Gemini's `streamGenerateContent`. Pure.
//!
//! <https://ai.google.dev/api/generate-content>

mod fold;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use openskill_proto::v1::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;

use self::fold::{GeminiFold, Kept};
use super::calls::{as_object, wire_name};
use super::model::Request;
use super::opaque;
use super::wire::{Fold, Wire, tools};
use crate::message::{Message, ModelCall, ModelResult};

/// What the provider accepts in place of a signature that another model, or none, gave.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The format, for one model.
#[derive(Debug)]
pub(super) struct Gemini {
    /// As the server knows it, without `models/`.
    pub(super) model: String,
    /// With the provider's name, to which what it gives back is bound.
    pub(super) name: String,
}

impl Wire for Gemini {
    fn dialect(&self) -> Dialect {
        Dialect::Gemini
    }

    fn body(&self, request: &Request, kept: bool) -> Vec<u8> {
        let mut contents = Vec::with_capacity(request.messages.len());
        // The provider's own ids of the calls that the next results answer, if it gave any.
        let mut ids = Vec::new();
        for message in &request.messages {
            self.add(message, kept, &mut ids, &mut contents);
        }
        let tools = tools(request);
        let body = Body {
            system_instruction: (!request.system.is_empty())
                .then(|| Instruction { parts: [Text { text: &request.system }] }),
            tool_config: (!tools.is_empty() && !request.may_call).then_some(ToolConfig::NONE),
            tools: if tools.is_empty() { Vec::new() } else { vec![Tools { function_declarations: tools }] },
            generation_config: (request.max_tokens > 0).then_some(Generation { max_output_tokens: request.max_tokens }),
            contents,
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::new(GeminiFold::new(self.name.clone()))
    }
}

impl Gemini {
    fn add<'a>(
        &self,
        message: &'a Message,
        kept: bool,
        ids: &mut Vec<Option<String>>,
        contents: &mut Vec<Content<'a>>,
    ) {
        let (role, parts) = match message {
            Message::User(text) => ("user", vec![Part::text(text)]),
            Message::Assistant { text, calls } => {
                ids.clear();
                let mut parts = Vec::with_capacity(calls.len() + 1);
                parts.extend((!text.is_empty()).then(|| Part::text(text)));
                parts.extend(self.calls(calls, kept, ids));
                ("model", parts)
            }
            Message::Results(results) => {
                let mut ids = ids.drain(..).map(Some).chain(std::iter::repeat(None));
                let answers = results.iter().map(|result| {
                    let (output, error) = (!result.is_error, result.is_error);
                    let response = Response {
                        output: output.then_some(result.content.as_str()),
                        error: error.then_some(result.content.as_str()),
                    };
                    let name = wire_name(&result.name).into_owned();
                    let id = ids.next().flatten().flatten();
                    Part { function_response: Some(FunctionResponse { id, name, response }), ..Part::default() }
                });
                // All answers come first: the provider counts them.
                ("user", answers.chain(results.iter().flat_map(pictures)).collect())
            }
        };
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            // Roles alternate.
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => contents.push(Content { role, parts }),
        }
    }

    fn calls<'a>(&self, calls: &'a [ModelCall], kept: bool, ids: &mut Vec<Option<String>>) -> Vec<Part<'a>> {
        let mut parts = Vec::with_capacity(calls.len());
        for call in calls {
            let gave: Kept = opaque::unpack(&self.name, &call.opaque).unwrap_or_default();
            ids.push(gave.id.clone());
            let name = wire_name(&call.name).into_owned();
            let function_call = FunctionCall { id: gave.id, name, args: as_object(&call.arguments) };
            let thought_signature = gave.thought_signature.filter(|_| kept);
            parts.push(Part { function_call: Some(function_call), thought_signature, ..Part::default() });
        }
        // Of several calls only the first has one.
        if self.demands_signatures()
            && parts.iter().all(|it| it.thought_signature.is_none())
            && let Some(first) = parts.first_mut()
        {
            first.thought_signature = Some(NO_SIGNATURE.to_owned());
        }
        parts
    }

    /// From Gemini 3 on.
    fn demands_signatures(&self) -> bool {
        !["gemini-1", "gemini-2", "gemma"].iter().any(|old| self.model.starts_with(old))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Instruction<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Generation>,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
struct Instruction<'a> {
    parts: [Text<'a>; 1],
}

#[derive(Serialize)]
struct Text<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Tools<'a> {
    function_declarations: Vec<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolConfig {
    function_calling_config: Calling,
}

impl ToolConfig {
    const NONE: Self = Self { function_calling_config: Calling { mode: "NONE" } };
}

#[derive(Serialize)]
struct Calling {
    mode: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Generation {
    max_output_tokens: u32,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'a str,
    parts: Vec<Part<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    inline_data: Option<InlineData<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InlineData<'a> {
    mime_type: &'a str,
    data: &'a str,
}

/// The pictures of a result, after what they are.
fn pictures(result: &ModelResult) -> Vec<Part<'_>> {
    let caption =
        (!result.pictures.is_empty()).then(|| Part { text: Some(result.caption().into()), ..Part::default() });
    let pictures = result.pictures.iter().map(|it| Part {
        inline_data: Some(InlineData { mime_type: &it.media_type, data: &it.base64 }),
        ..Part::default()
    });
    caption.into_iter().chain(pictures).collect()
}

impl<'a> Part<'a> {
    fn text(text: &'a str) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }
}

#[derive(Serialize)]
struct FunctionCall {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    args: Box<RawValue>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
    name: String,
    response: Response<'a>,
}

#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}
