//! The spans of a turn, following OpenTelemetry's conventions for generative AI. They contain names, numbers and ids,
//! but no text from users, models or skills.
//!
//! ```text
//! 0  internal  invoke_agent {agent}    from when the turn begins or resumes, until it ends or is unloaded
//! 2… client    chat {model}            one for each model request; Gemini: generate_content {model}
//! ```
//!
//! The calls of the turn are children of `invoke_agent`. The gateway that runs them creates their spans.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_model::{Model, ModelError, ModelRequest, ModelResponse, StopReason};
use openskill_proto::trace::{Trace, TraceContext};
use openskill_telemetry::trace::call::{CallSpans, ClientSpan, Span};
use openskill_telemetry::trace::{KeyValue, Tracer};
use parking_lot::Mutex;

use super::state::State;
use crate::entry::{EndReason, Entry};

/// The number of the turn's own span.
const TURN: u32 = 0;

/// The name of an agent that is not a sub-agent.
const AGENT: &str = "openskill";

/// The spans of a turn while it is in memory. `None` if turns are not traced.
#[derive(Debug)]
pub(super) struct TurnSpans(Option<Arc<CallSpans>>);

impl TurnSpans {
    /// Creates the spans of a turn with this trace id, as children of the calling span, if any.
    pub(super) fn new(tracer: Option<&Tracer>, trace_id: &str, parent: Option<TraceContext>) -> Self {
        let now = Instant::now();
        let mut trace = Trace::from_headers(Some(trace_id.as_bytes()), None, None);
        if let Some(parent) = parent {
            (trace.context, trace.has_parent) = (parent, true);
        }
        // The parent may be a span of any client, so the sampler decides.
        Self(tracer.map(|tracer| Arc::new(tracer.enter(&trace, now))))
    }

    /// Returns the trace context for the turn's calls.
    pub(super) fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|spans| spans.context(TURN))
    }

    /// Starts the turn's span when the turn begins or resumes.
    pub(super) fn start_turn<'a>(&'a self, conversation: &'a str, state: &'a Mutex<State>) -> TurnSpanGuard<'a> {
        TurnSpanGuard { spans: self, conversation, state, begun: Instant::now() }
    }

    /// Starts the span of a model request.
    pub(super) fn start_request(
        &self,
        conversation: &str,
        model: &dyn Model,
        request: &ModelRequest,
        time: Duration,
    ) -> RequestSpan {
        let open = self.0.as_ref().map(|spans| {
            let (provider, name) = model.name().split_once(':').unwrap_or(("", model.name()));
            let operation = if provider == "gemini" { "generate_content" } else { "chat" };
            let mut attributes = model_attributes(operation, provider, name);
            attributes.push(KeyValue::new("gen_ai.conversation.id", conversation.to_owned()));
            if request.max_tokens > 0 {
                attributes.push(KeyValue::new("gen_ai.request.max_tokens", i64::from(request.max_tokens)));
            }
            if let Some((host, port)) = model.server() {
                attributes.push(KeyValue::new("server.address", host));
                attributes.push(KeyValue::new("server.port", i64::from(port)));
            }
            ClientSpan::begin(spans, format!("{operation} {name}"), attributes, Instant::now() + time)
        });
        RequestSpan(open)
    }
}

/// The span of a model request. Dropping it without calling `end` means that the request was cancelled or timed
/// out.
pub(super) struct RequestSpan(Option<ClientSpan>);

impl RequestSpan {
    /// Ends the span and records the answer or the failure.
    pub(super) fn end(self, answer: &Result<ModelResponse, ModelError>) {
        let Some(open) = self.0 else { return };
        match answer {
            Ok(reply) => open.end(reply_attributes(reply), None),
            Err(error) => open.end([], Some(kind(error))),
        }
    }
}

/// Ends the turn's span on drop: the turn ended, was unloaded, or was cancelled.
pub(super) struct TurnSpanGuard<'a> {
    spans: &'a TurnSpans,
    conversation: &'a str,
    state: &'a Mutex<State>,
    begun: Instant,
}

impl Drop for TurnSpanGuard<'_> {
    fn drop(&mut self) {
        let Some(spans) = &self.spans.0 else { return };
        let state = self.state.lock();
        let end = end(&state);
        let failed = end == "failed";
        if !spans.is_sampled() && !failed {
            return spans.discard();
        }
        let attributes = turn_attributes(self.conversation, &state, end);
        spans.add(Span {
            attributes,
            failed,
            ..Span::new(TURN, format!("invoke_agent {}", agent(&state)), self.begun)
        });
        spans.keep();
    }
}

fn agent(state: &State) -> &str {
    state.turn_start().and_then(|it| it.delegated.as_ref()).map_or(AGENT, |it| &it.agent)
}

/// Returns how the turn ended, or why it was unloaded.
fn end(state: &State) -> &'static str {
    match state.entries.last().map(|it| &it.entry) {
        Some(Entry::Ended(ended)) => match ended.end {
            EndReason::Completed => "completed",
            EndReason::Limit => "limit",
            EndReason::Cancelled => "cancelled",
            EndReason::Failed => "failed",
        },
        Some(Entry::Waiting { .. }) => "waiting",
        _ => "stopped",
    }
}

fn turn_attributes(conversation: &str, state: &State, end: &'static str) -> Vec<KeyValue> {
    let model = state.turn_start().map(|it| it.model.as_str()).unwrap_or_default();
    let mut attributes = match model.split_once(':') {
        Some((provider, name)) => model_attributes("invoke_agent", provider, name),
        // The router answers this turn.
        None => vec![KeyValue::new("gen_ai.operation.name", "invoke_agent")],
    };
    let used = state.used;
    attributes.extend([
        KeyValue::new("gen_ai.agent.name", agent(state).to_owned()),
        KeyValue::new("gen_ai.conversation.id", conversation.to_owned()),
        KeyValue::new("gen_ai.usage.input_tokens", number(used.input_tokens)),
        KeyValue::new("gen_ai.usage.output_tokens", number(used.output_tokens)),
        KeyValue::new("openskill.agent.end", end),
        KeyValue::new("openskill.agent.iterations", i64::from(used.iterations)),
        KeyValue::new("openskill.agent.tool_calls", i64::from(used.tool_calls)),
    ]);
    if end == "failed" {
        attributes.push(KeyValue::new("error.type", "model"));
    }
    attributes
}

/// Returns attributes that identify the model. The provider's name follows the OpenTelemetry conventions.
fn model_attributes(operation: &'static str, provider: &str, name: &str) -> Vec<KeyValue> {
    let provider = if provider == "gemini" { "gcp.gemini" } else { provider };
    vec![
        KeyValue::new("gen_ai.operation.name", operation),
        KeyValue::new("gen_ai.provider.name", provider.to_owned()),
        KeyValue::new("gen_ai.request.model", name.to_owned()),
    ]
}

fn reply_attributes(reply: &ModelResponse) -> Vec<KeyValue> {
    let reason = match reply.stop {
        StopReason::Done if reply.calls.is_empty() => "stop",
        StopReason::Done => "tool_calls",
        StopReason::Length => "length",
        StopReason::Refused => "content_filter",
    };
    let reasons =
        openskill_telemetry::trace::Value::Array(vec![openskill_telemetry::trace::StringValue::from(reason)].into());
    let mut attributes = vec![KeyValue::new("gen_ai.response.finish_reasons", reasons)];
    // Both are 0 if the provider did not report the usage.
    if reply.tokens.input > 0 || reply.tokens.output > 0 {
        attributes.push(KeyValue::new("gen_ai.usage.input_tokens", number(reply.tokens.input)));
        attributes.push(KeyValue::new("gen_ai.usage.output_tokens", number(reply.tokens.output)));
    }
    attributes
}

/// Returns the error type: an HTTP status, or a word for the failure.
fn kind(error: &ModelError) -> Cow<'static, str> {
    match error {
        ModelError::Refused { status, .. } => status.to_string().into(),
        ModelError::Unreachable { .. } => "unreachable".into(),
        ModelError::CutOff { .. } => "cut_off".into(),
        ModelError::Malformed { .. } => "malformed".into(),
        ModelError::Unreadable { .. } => "unreadable".into(),
        ModelError::TooLarge { .. } => "too_large".into(),
    }
}

fn number(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use openskill_telemetry::trace::queue::Queue;
    use openskill_telemetry::trace::sampler::Sampler;

    use super::*;

    #[test]
    fn a_turn_follows_the_trace_of_a_client_and_the_sampler_decides() {
        let sampler = Sampler::from_name("traceidratio", 0.0).unwrap().unwrap();
        let tracer = Tracer::new(sampler, None, Arc::new(Queue::new(1, 1)));
        let parent = TraceContext { trace_id: [1; 16], span_id: [2; 8], flags: 1 };
        let context = TurnSpans::new(Some(&tracer), "one", Some(parent)).context().unwrap();
        assert!(context.trace_id == parent.trace_id && !context.is_sampled(), "{context:?}");
    }
}
