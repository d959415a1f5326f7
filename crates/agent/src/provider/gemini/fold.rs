//! Puts the parts of a candidate together.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::message::Tokens;
use crate::provider::calls::{self, Partial};
use crate::provider::failure::Said;
use crate::provider::frames::Frame;
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
    text: String,
    calls: Vec<Partial>,
    tokens: Tokens,
    finish_reason: Option<String>,
    is_blocked: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk<'a> {
    #[serde(borrow, default)]
    candidates: Option<Vec<Candidate<'a>>>,
    prompt_feedback: Option<Feedback>,
    usage_metadata: Option<Usage>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Feedback {
    block_reason: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Usage {
    prompt_token_count: Option<u64>,
    tool_use_prompt_token_count: Option<u64>,
    candidates_token_count: Option<u64>,
    thoughts_token_count: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate<'a> {
    #[serde(borrow)]
    content: Option<Content<'a>>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    parts: Option<Vec<Part<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    text: Option<String>,
    thought: Option<bool>,
    thought_signature: Option<String>,
    #[serde(borrow)]
    function_call: Option<FunctionCall<'a>>,
}

#[derive(Deserialize)]
struct FunctionCall<'a> {
    id: Option<String>,
    name: Option<String>,
    #[serde(borrow)]
    args: Option<&'a RawValue>,
}

impl GeminiFold {
    pub(super) fn new(name: String) -> Self {
        Self { name, ..Self::default() }
    }

    fn part(&mut self, part: Part<'_>, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        if let Some(said) = part.text.filter(|it| !it.is_empty() && part.thought != Some(true)) {
            text(&said);
            self.text.push_str(&said);
        }
        let Some(written) = part.function_call else { return Ok(()) };
        let id = written.id.filter(|it| !it.is_empty());
        let kept = Kept { id: id.clone(), thought_signature: part.thought_signature.filter(|it| !it.is_empty()) };
        let is_empty = kept.id.is_none() && kept.thought_signature.is_none();
        let opaque = if is_empty { String::new() } else { opaque::pack(&self.name, &kept) };
        let (id, name) = (id.unwrap_or_default(), written.name.unwrap_or_default());
        let call = calls::add(&mut self.calls, Partial { id, name, opaque, ..Partial::default() })?;
        call.push(&calls::arguments(written.args).unwrap_or("{}".into()));
        Ok(())
    }
}

impl Fold for GeminiFold {
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let chunk: Chunk<'_> = serde_json::from_str(&frame.data).map_err(|error| Fault::of_json(&error))?;
        if chunk.error.is_some_and(|it| it.get() != "null") {
            return Err(Fault::Failed(Said::of_json(&frame.data).unwrap_or_else(|| Said::unexplained(""))));
        }
        if let Some(usage) = chunk.usage_metadata {
            let sum = |parts: [Option<u64>; 2]| parts.into_iter().flatten().fold(0, u64::saturating_add);
            self.tokens = Tokens {
                input: sum([usage.prompt_token_count, usage.tool_use_prompt_token_count]).max(self.tokens.input),
                output: sum([usage.candidates_token_count, usage.thoughts_token_count]).max(self.tokens.output),
            };
        }
        self.is_blocked |= chunk.prompt_feedback.and_then(|it| it.block_reason).is_some();
        // One candidate was asked for.
        let Some(candidate) = chunk.candidates.into_iter().flatten().next() else { return Ok(()) };
        let parts = candidate.content.and_then(|it| it.parts).unwrap_or_default();
        parts.into_iter().try_for_each(|part| self.part(part, text))?;
        self.finish_reason = candidate.finish_reason.or(self.finish_reason.take());
        Ok(())
    }

    /// Some models name a reason in each chunk: only the end of the body is the end.
    fn is_over(&self) -> bool {
        false
    }

    fn finish(self: Box<Self>) -> Result<Reply, Fault> {
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
        let calls = calls::finished(self.calls, stop);
        Ok(Reply { text: self.text, calls, tokens: self.tokens, stop })
    }
}
