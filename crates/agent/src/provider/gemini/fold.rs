//! Puts the parts of a candidate together.

use serde::{Deserialize, Serialize};

use crate::message::Tokens;
use crate::provider::assembler::{Assembler, Key};
use crate::provider::failure::Said;
use crate::provider::frames::Frame;
use crate::provider::json::{Json, Object};
use crate::provider::model::{Reply, Stop};
use crate::provider::opaque;
use crate::provider::wire::{Fault, Fold};

/// What the provider gives with a call and wants back.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Kept {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) thought_signature: Option<String>,
}

/// A candidate so far.
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

    fn part(&mut self, part: &Object<'_>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        if part.word("thought") != "true" {
            self.answer.say(&part.text("text")?, text);
        }
        let Some(written) = part.get("functionCall").map(Json::object).transpose()? else { return Ok(()) };
        let (id, name) = (written.word("id"), written.text("name")?.into_text());
        let at = self.call(&id, &name)?;
        let draft = &mut self.answer.calls[at];
        draft.call.add_name(&name)?;
        let optional = |text: String| (!text.is_empty()).then_some(text);
        let kept = Kept { id: optional(id), thought_signature: optional(part.word("thoughtSignature")) };
        if draft.call.opaque.is_empty() && (kept.id.is_some() || kept.thought_signature.is_some()) {
            draft.call.opaque = opaque::pack(&self.name, &kept);
        }
        // Arguments in parts were not asked for.
        let continues = written.word("willContinue") == "true" || written.get("partialArgs").is_some();
        match written.get("args") {
            Some(args) => draft.call.set(&args.whole_text()?)?,
            None if draft.call.is_given() => {}
            None => draft.call.set("{}")?,
        }
        draft.is_unclear = continues || (draft.is_unclear && !draft.call.is_closed());
        Ok(())
    }

    /// The call of a part: each part is one, but one without a name continues the last.
    fn call(&mut self, id: &str, name: &str) -> Result<usize, Fault> {
        let last = self.answer.last(|_| true).filter(|_| name.is_empty());
        match last {
            Some(at) if id.is_empty() || self.answer.calls[at].call.id == id => Ok(at),
            _ => self.answer.begin(Key { call: id.to_owned(), ..Key::default() }),
        }
    }
}

impl Fold for GeminiFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let chunk = Json::parse(&frame.data)?.object()?;
        if chunk.get("error").is_some() {
            return Err(Fault::Failed(Said::of_json(&frame.data).unwrap_or_else(|| Said::unexplained(""))));
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
        // One candidate was asked for.
        let Some(candidate) = chunk.list("candidates")?.into_iter().next() else { return Ok(()) };
        let candidate = candidate.object()?;
        if let Some(content) = candidate.get("content") {
            content.object()?.list("parts")?.into_iter().try_for_each(|part| self.part(&part.object()?, text))?;
        }
        self.finish_reason = candidate.get("finishReason").and_then(Json::word).or(self.finish_reason.take());
        Ok(())
    }

    /// Some models name a reason in each chunk: only the end of the body is the end.
    fn is_over(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<Reply, Fault> {
        let stop = match self.finish_reason.as_deref() {
            None if self.is_blocked => Stop::Refused,
            None => return Err(Fault::CutOff),
            Some("STOP" | "FINISH_REASON_UNSPECIFIED" | "OTHER") => Stop::Done,
            Some("MAX_TOKENS") => Stop::Length,
            // The provider could not read its model's call and dropped it: asked again, the model writes another.
            Some("MALFORMED_FUNCTION_CALL" | "MALFORMED_RESPONSE") => return Err(Fault::CutOff),
            Some("UNEXPECTED_TOOL_CALL" | "TOO_MANY_TOOL_CALLS" | "MISSING_THOUGHT_SIGNATURE") => Stop::Done,
            Some(_) => Stop::Refused,
        };
        self.answer.finish(stop, self.tokens, text)
    }
}
