//! The wire format of Google Gemini's `streamGenerateContent`. Does no I/O.
//!
//! <https://ai.google.dev/api/generate-content>

mod fold;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use openskill_proto::v1::Dialect;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::fold::{GeminiFold, GeminiOpaqueData};
use crate::calls::{as_object, wire_name};
use crate::message::{Message, ModelCall, Picture};
use crate::model::ModelRequest;
use crate::opaque;
use crate::wire::{Fold, Wire, tools};

/// The value that the provider accepts in place of a signature that is missing or comes from another model.
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// The wire format for a model.
#[derive(Debug)]
pub(crate) struct Gemini {
    /// The provider's name for the model, without `models/`.
    pub(crate) model: String,
    /// The name with the provider prefix, to which opaque data is bound.
    pub(crate) name: String,
}

impl Wire for Gemini {
    fn dialect(&self) -> Dialect {
        Dialect::Gemini
    }

    fn body(&self, request: &ModelRequest, with_opaque: bool) -> Vec<u8> {
        let mut contents = Vec::with_capacity(request.messages.len());
        // The provider's ids, where present, for the calls answered by the next results.
        let mut ids = Vec::new();
        for message in &request.messages {
            self.add(message, with_opaque, &mut ids, &mut contents);
        }
        let tools = tools(request);
        let body = Body {
            system_instruction: (!request.system.is_empty()).then(|| json!({"parts": [{"text": request.system}]})),
            tool_config: (!tools.is_empty() && !request.may_call)
                .then(|| json!({"functionCallingConfig": {"mode": "NONE"}})),
            tools: if tools.is_empty() { Vec::new() } else { vec![ToolDeclarations { function_declarations: tools }] },
            generation_config: generation_config(request),
            contents,
        };
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::new(GeminiFold::new(self.name.clone()))
    }
}

/// Returns the token limit and the temperature of an answer, or `None` if the request sets neither.
fn generation_config(request: &ModelRequest) -> Option<Value> {
    let mut config = serde_json::Map::new();
    if request.max_tokens > 0 {
        config.insert("maxOutputTokens".to_owned(), request.max_tokens.into());
    }
    if let Some(temperature) = request.temperature {
        config.insert("temperature".to_owned(), temperature.into());
    }
    (!config.is_empty()).then(|| config.into())
}

impl Gemini {
    fn add<'a>(
        &self,
        message: &'a Message,
        with_opaque: bool,
        ids: &mut Vec<Option<String>>,
        contents: &mut Vec<Content<'a>>,
    ) {
        let (role, parts) = match message {
            Message::User(text) => ("user", vec![GeminiPart::text(text)]),
            Message::Assistant { text, calls } => {
                ids.clear();
                let mut parts = Vec::with_capacity(calls.len() + 1);
                parts.extend((!text.is_empty()).then(|| GeminiPart::text(text)));
                parts.extend(self.calls(calls, with_opaque, ids));
                ("model", parts)
            }
            Message::Results(results) => {
                let mut ids = ids.drain(..).map(Some).chain(std::iter::repeat(None));
                let answers = results.iter().map(|result| {
                    let content = result.content.as_str();
                    let response = if result.is_error { Response::Error(content) } else { Response::Output(content) };
                    let name = wire_name(&result.name).into_owned();
                    let id = ids.next().flatten().flatten();
                    GeminiPart {
                        function_response: Some(FunctionResponse { id, name, response }),
                        ..GeminiPart::default()
                    }
                });
                // Pictures follow after all function responses, because the provider counts the responses.
                (
                    "user",
                    answers
                        .chain(results.iter().flat_map(|it| it.picture_parts(GeminiPart::text, GeminiPart::picture)))
                        .collect(),
                )
            }
        };
        match contents.last_mut() {
            _ if parts.is_empty() => {}
            // Roles must alternate, so consecutive messages with the same role are merged.
            Some(last) if last.role == role => last.parts.extend(parts),
            _ => contents.push(Content { role, parts }),
        }
    }

    fn calls<'a>(
        &self,
        calls: &'a [ModelCall],
        with_opaque: bool,
        ids: &mut Vec<Option<String>>,
    ) -> Vec<GeminiPart<'a>> {
        let mut parts = Vec::with_capacity(calls.len());
        for call in calls {
            let gave: GeminiOpaqueData = opaque::unpack(&self.name, &call.opaque).unwrap_or_default();
            ids.push(gave.id.clone());
            let name = wire_name(&call.name).into_owned();
            let function_call = FunctionCall { id: gave.id, name, args: as_object(&call.arguments) };
            let thought_signature = gave.thought_signature.filter(|_| with_opaque);
            parts.push(GeminiPart { function_call: Some(function_call), thought_signature, ..GeminiPart::default() });
        }
        // Only the first of parallel calls has a signature.
        if self.demands_signatures()
            && parts.iter().all(|it| it.thought_signature.is_none())
            && let Some(first) = parts.first_mut()
        {
            first.thought_signature = Some(NO_SIGNATURE.to_owned());
        }
        parts
    }

    /// Returns whether the model requires signatures, which Gemini 3 and later do.
    fn demands_signatures(&self) -> bool {
        !["gemini-1", "gemini-2", "gemma"].iter().any(|old| self.model.starts_with(old))
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<ToolDeclarations<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    generation_config: Option<Value>,
    contents: Vec<Content<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolDeclarations<'a> {
    function_declarations: Vec<&'a RawValue>,
}

#[derive(Serialize)]
struct Content<'a> {
    role: &'a str,
    parts: Vec<GeminiPart<'a>>,
}

#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct GeminiPart<'a> {
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

impl<'a> GeminiPart<'a> {
    fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    fn picture(it: &'a Picture) -> Self {
        let inline_data = InlineData { mime_type: &it.media_type, data: &it.base64 };
        Self { inline_data: Some(inline_data), ..Self::default() }
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
#[serde(rename_all = "snake_case")]
enum Response<'a> {
    Output(&'a str),
    Error(&'a str),
}
