//! The spans of a turn, by OpenTelemetry's conventions for generative AI. They hold names, numbers and ids, and no text of
//! users, models or skills.
//!
//! ```text
//! 0  internal  invoke_agent {agent}    from the turn's begin, or from where it goes on, until it ends or leaves the memory
//! 2… client    chat {model}            one for each request to the model
//! ```
//!
//! The calls of the turn are children of `invoke_agent`: the gateway that runs them makes their spans.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use openskill_proto::trace::{Trace, TraceContext};
use openskill_trace::call::{CallSpans, Request as Open, Span};
use openskill_trace::{KeyValue, Tracer};

use super::state::State;
use crate::entry::{End, Entry};
use crate::provider::{Model, ModelError, Reply, Request, Stop};

/// The span of the turn itself.
const TURN: u32 = 0;

/// The agent's name where it is not a sub-agent.
const AGENT: &str = "openskill";

/// The spans of one turn, while it is in memory. Nothing is made if turns are not traced.
#[derive(Debug)]
pub(super) struct TurnSpans(Option<Arc<CallSpans>>);

impl TurnSpans {
    /// Those of the turn with this trace id, under the span that called it, if one did.
    pub(super) fn new(tracer: Option<&Tracer>, trace_id: &str, parent: Option<TraceContext>) -> Self {
        let now = Instant::now();
        Self(tracer.map(|tracer| {
            Arc::new(match parent {
                Some(parent) => tracer.follow(parent, now),
                None => tracer.enter(&Trace::from_headers(Some(trace_id.as_bytes()), None, None), now),
            })
        }))
    }

    /// What the turn's calls are told.
    pub(super) fn context(&self) -> Option<TraceContext> {
        self.0.as_ref().map(|spans| spans.context(TURN))
    }

    /// The turn begins to work, or goes on.
    pub(super) fn working<'a>(&'a self, conversation: &'a str, state: &'a Mutex<State>) -> Working<'a> {
        Working { spans: self, conversation, state, begun: Instant::now() }
    }

    /// A request to a model begins.
    pub(super) fn asks(&self, conversation: &str, model: &dyn Model, request: &Request, time: Duration) -> Asking {
        let open = self.0.as_ref().map(|spans| {
            let (provider, name) = model.name().split_once(':').unwrap_or(("", model.name()));
            let operation = if provider == "gemini" { "generate_content" } else { "chat" };
            let mut attributes = of_model(operation, provider, name);
            attributes.push(KeyValue::new("gen_ai.conversation.id", conversation.to_owned()));
            if request.max_tokens > 0 {
                attributes.push(KeyValue::new("gen_ai.request.max_tokens", i64::from(request.max_tokens)));
            }
            if let Some((host, port)) = model.server() {
                attributes.push(KeyValue::new("server.address", host));
                attributes.push(KeyValue::new("server.port", i64::from(port)));
            }
            Open::begin(spans, format!("{operation} {name}"), attributes, Instant::now() + time)
        });
        Asking(open)
    }
}

/// A request to a model. Dropped, it was cancelled, or its time was up.
pub(super) struct Asking(Option<Open>);

impl Asking {
    /// The model answered, or failed.
    pub(super) fn end(self, answer: &Result<Reply, ModelError>) {
        let Some(open) = self.0 else { return };
        match answer {
            Ok(reply) => open.end(of_reply(reply), None),
            Err(error) => open.end([], Some(kind(error))),
        }
    }
}

/// The turn's own span, from its begin until this is dropped: the turn ended, waits for its user, or was cancelled.
pub(super) struct Working<'a> {
    spans: &'a TurnSpans,
    conversation: &'a str,
    state: &'a Mutex<State>,
    begun: Instant,
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let Some(spans) = &self.spans.0 else { return };
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let end = end(&state);
        let failed = end == "failed";
        if !spans.is_sampled() && !failed {
            return spans.discard();
        }
        let attributes = of_turn(self.conversation, &state, end);
        spans.add(Span {
            attributes,
            failed,
            ..Span::new(TURN, format!("invoke_agent {}", agent(&state)), self.begun)
        });
        spans.keep();
    }
}

fn agent(state: &State) -> &str {
    state.started().and_then(|it| it.delegated.as_ref()).map_or(AGENT, |it| &it.agent)
}

/// How the turn ended, or why it left the memory.
fn end(state: &State) -> &'static str {
    match state.entries().last().map(|it| &it.entry) {
        Some(Entry::Ended(ended)) => match ended.end {
            End::Completed => "completed",
            End::Limit => "limit",
            End::Cancelled => "cancelled",
            End::Failed => "failed",
        },
        Some(Entry::Waiting { .. }) => "waiting",
        _ => "stopped",
    }
}

fn of_turn(conversation: &str, state: &State, end: &'static str) -> Vec<KeyValue> {
    let model = state.started().map(|it| it.model.as_str()).unwrap_or_default();
    let mut attributes = match model.split_once(':') {
        Some((provider, name)) => of_model("invoke_agent", provider, name),
        // The router answers.
        None => vec![KeyValue::new("gen_ai.operation.name", "invoke_agent")],
    };
    let used = state.used();
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

/// The provider's name in the conventions, where it has one.
fn of_model(operation: &'static str, provider: &str, name: &str) -> Vec<KeyValue> {
    let provider = if provider == "gemini" { "gcp.gemini" } else { provider };
    vec![
        KeyValue::new("gen_ai.operation.name", operation),
        KeyValue::new("gen_ai.provider.name", provider.to_owned()),
        KeyValue::new("gen_ai.request.model", name.to_owned()),
    ]
}

fn of_reply(reply: &Reply) -> Vec<KeyValue> {
    let reason = match reply.stop {
        Stop::Done if reply.calls.is_empty() => "stop",
        Stop::Done => "tool_calls",
        Stop::Length => "length",
        Stop::Refused => "content_filter",
    };
    let reasons = openskill_trace::Value::Array(vec![openskill_trace::StringValue::from(reason)].into());
    let mut attributes = vec![KeyValue::new("gen_ai.response.finish_reasons", reasons)];
    // 0 if the provider did not say.
    if reply.tokens.input > 0 || reply.tokens.output > 0 {
        attributes.push(KeyValue::new("gen_ai.usage.input_tokens", number(reply.tokens.input)));
        attributes.push(KeyValue::new("gen_ai.usage.output_tokens", number(reply.tokens.output)));
    }
    attributes
}

/// The class of a failure: an HTTP status, or what happened to the answer.
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
