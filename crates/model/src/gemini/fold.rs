//! Assembles a candidate from its parts.

use serde::{Deserialize, Serialize};

use crate::assembler::{Assembler, Key};
use crate::frames::Frame;
use crate::json::{Json, Object};
use crate::message::Tokens;
use crate::model::{ModelResponse, StopReason};
use crate::opaque;
use crate::wire::{Fold, WireError};

/// Opaque data from the provider that must be returned with a call.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct GeminiOpaqueData {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<String>,
}

/// A candidate that is still arriving.
#[derive(Default)]
pub(super) struct GeminiFold {
    name: String,
    answer: Assembler,
    tokens: Tokens,
    finish_reason: Option<String>,
    is_blocked: bool,
}

impl GeminiFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    fn part(&mut self, part: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        if part.word("thought") != "true" {
            self.answer.say(&part.text("text")?, text);
        }
        let Some(written) = part.part("functionCall")? else { return Ok(()) };
        let (id, name) = (written.word("id"), written.text("name")?.into_text());
        let at = self.call(&id, &name)?;
        let draft = &mut self.answer.calls[at];
        draft.call.add_name(&name)?;
        let optional = |text: String| (!text.is_empty()).then_some(text);
        let data = GeminiOpaqueData { id: optional(id), thought_signature: optional(part.word("thoughtSignature")) };
        if draft.call.opaque.is_empty() && (data.id.is_some() || data.thought_signature.is_some()) {
            draft.call.opaque = opaque::pack(&self.name, &data);
        }
        // Argument deltas are not supported, because requests don't ask for them.
        let continues = written.word("willContinue") == "true" || written.get("partialArgs").is_some();
        match written.get("args") {
            Some(args) => draft.call.set(&args.whole_text()?)?,
            None if draft.call.is_given() => {}
            None => draft.call.set("{}")?,
        }
        draft.is_unclear = continues || (draft.is_unclear && !draft.call.is_closed());
        Ok(())
    }

    /// Returns the index of the call to which a part belongs. Each part is a separate call, except that a part
    /// without a name continues the previous one.
    fn call(&mut self, id: &str, name: &str) -> Result<usize, WireError> {
        let last = self.answer.last(|_| true).filter(|_| name.is_empty());
        match last {
            Some(at) if id.is_empty() || self.answer.calls[at].call.id == id => Ok(at),
            _ => self.answer.begin(Key { call: id.to_owned(), ..Key::default() }),
        }
    }
}

impl Fold for GeminiFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), WireError> {
        let chunk = Object::parse(&frame.data)?;
        if chunk.get("error").is_some() {
            return Err(WireError::from_error_event(&frame.data));
        }
        if let Some(usage) = chunk.object("usageMetadata") {
            let (read, wrote) =
                (["promptTokenCount", "toolUsePromptTokenCount"], ["candidatesTokenCount", "thoughtsTokenCount"]);
            self.tokens = Tokens {
                input: usage.sum(&read).max(self.tokens.input),
                output: usage.sum(&wrote).max(self.tokens.output),
            };
        }
        self.is_blocked |= chunk.object("promptFeedback").is_some_and(|it| it.get("blockReason").is_some());
        // Requests ask for a single candidate.
        let Some(candidate) = chunk.list("candidates")?.into_iter().next() else { return Ok(()) };
        let candidate = candidate.object()?;
        if let Some(content) = candidate.part("content")? {
            content.list("parts")?.into_iter().try_for_each(|part| self.part(&part.object()?, text))?;
        }
        self.finish_reason = candidate.get("finishReason").and_then(Json::word).or(self.finish_reason.take());
        Ok(())
    }

    /// Always returns `false`: some models send a finish reason in each chunk, so only the end of the body marks
    /// the end.
    fn is_over(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<ModelResponse, WireError> {
        let stop = match self.finish_reason.as_deref() {
            None if self.is_blocked => StopReason::Refused,
            None => return Err(WireError::CutOff),
            Some("STOP" | "FINISH_REASON_UNSPECIFIED" | "OTHER") => StopReason::Done,
            Some("MAX_TOKENS") => StopReason::Length,
            // The provider could not parse the model's call and dropped it. A retry produces another call.
            Some("MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE") => return Err(WireError::CutOff),
            Some("UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MISSING_THOUGHT_SIGNATURE") => StopReason::Done,
            Some(_) => StopReason::Refused,
        };
        self.answer.finish(stop, self.tokens, text)
    }
}
