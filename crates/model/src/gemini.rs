//! The wire format of Google Gemini's `streamGenerateContent`. Does no I/O.
//!
//! <https://ai.google.dev/api/generate-content>

mod fold;
#[cfg(test)]
mod tests;

use openskill_proto::v1::Dialect;
use serde_json::json;
use serde_json::value::RawValue;

use self::fold::{GeminiFold, GeminiOpaqueData};
use crate::calls::{as_object, wire_name};
use crate::message::{Message, ModelCall, Picture};
use crate::model::ModelRequest;
use crate::opaque;
use crate::wire::{Fields, Fold, RoleMessage, Wire, add_parts, raw, tools};

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
        let contents: Vec<_> =
            contents.into_iter().map(|it| Fields::default().with("role", it.role).with("parts", it.parts)).collect();
        let tools = tools(request);
        let forbids_calls = tools.is_some() && !request.may_call;
        let system = (!request.system.is_empty()).then(|| json!({"parts": [{"text": request.system}]}));
        let max_tokens = (request.max_tokens > 0).then_some(request.max_tokens);
        let has_config = max_tokens.is_some() || request.temperature.is_some();
        let config = Fields::default().with("maxOutputTokens", max_tokens).with("temperature", request.temperature);
        let body = Fields::default()
            .with("systemInstruction", system)
            .with("tools", tools.map(|it| [Fields::default().with("functionDeclarations", it)]))
            .with("toolConfig", forbids_calls.then(|| json!({"functionCallingConfig": {"mode": "NONE"}})))
            .with("generationConfig", has_config.then_some(config))
            .with("contents", contents);
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn fold(&self) -> Box<dyn Fold> {
        Box::new(GeminiFold::new(self.name.clone()))
    }
}

impl Gemini {
    fn add(
        &self,
        message: &Message,
        with_opaque: bool,
        ids: &mut Vec<Option<String>>,
        contents: &mut Vec<RoleMessage>,
    ) {
        match message {
            Message::User(text) => add_parts(contents, "user", vec![raw(json!({"text": text}))]),
            Message::Assistant { text, calls } => {
                let mut parts = Vec::with_capacity(calls.len() + 1);
                parts.extend((!text.is_empty()).then(|| raw(json!({"text": text}))));
                parts.extend(self.calls(calls, with_opaque, ids));
                add_parts(contents, "model", parts);
            }
            Message::Results(results) => {
                let mut ids = ids.drain(..).map(Some).chain(std::iter::repeat(None));
                let answers = results.iter().map(|it| {
                    let content = if it.is_error { "error" } else { "output" };
                    let answer = Fields::default()
                        .with("id", ids.next().flatten().flatten())
                        .with("name", wire_name(&it.name))
                        .with("response", json!({ content: it.content }));
                    raw(Fields::default().with("functionResponse", answer))
                });
                // Pictures follow after all function responses, because the provider counts the responses.
                let text = |text: String| json!({"text": text});
                let picture = |it: &Picture| json!({"inlineData": {"mimeType": &*it.media_type, "data": &*it.base64}});
                let pictures = results.iter().flat_map(|it| it.picture_parts(text, picture)).map(raw);
                add_parts(contents, "user", answers.chain(pictures).collect());
            }
        }
    }

    fn calls(&self, calls: &[ModelCall], with_opaque: bool, ids: &mut Vec<Option<String>>) -> Vec<Box<RawValue>> {
        let unpack = |call: &ModelCall| opaque::unpack(&self.name, &call.opaque).unwrap_or_default();
        let given: Vec<GeminiOpaqueData> = calls.iter().map(unpack).collect();
        *ids = given.iter().map(|it| it.id.clone()).collect();
        // Only the first of parallel calls has a signature.
        let has_signature = with_opaque && given.iter().any(|it| it.thought_signature.is_some());
        let mut instead = Some(NO_SIGNATURE.to_owned()).filter(|_| self.demands_signatures() && !has_signature);
        let part = |(call, gave): (&ModelCall, GeminiOpaqueData)| {
            let function_call = Fields::default()
                .with("id", gave.id)
                .with("name", wire_name(&call.name))
                .with("args", as_object(&call.arguments));
            let signature = gave.thought_signature.filter(|_| with_opaque).or(instead.take());
            raw(Fields::default().with("functionCall", function_call).with("thoughtSignature", signature))
        };
        calls.iter().zip(given).map(part).collect()
    }

    /// Returns whether the model requires signatures, which Gemini 3 and later do.
    fn demands_signatures(&self) -> bool {
        !["gemini-1", "gemini-2", "gemma"].iter().any(|old| self.model.starts_with(old))
    }
}
