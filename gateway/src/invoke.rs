//! The story of a call: catalog, arguments, deadline, dispatch to a worker, result.

use std::sync::Arc;

use openskill_proto::trace::spans;
use openskill_proto::v1::{ErrorCode, ExecuteRequest, SkillError, SkillResult};
use tracing::Instrument as _;

use crate::admission::Permit;
use crate::call::Call;
use crate::catalog::Entry;
use crate::dispatch::dispatch;
use crate::gateway::Gateway;
use crate::outcome::{self, Outcome};
use crate::preparation::prepare;
use crate::recorder::Record;
use crate::relay::Listener;
use crate::workers::attempt::Attempt;

/// Runs one call to its result. Dropping the future ends the call everywhere. The permit is held to the end.
pub(crate) async fn invoke(
    gateway: &Gateway,
    shard: usize,
    call: &Call,
    listener: Option<&Listener>,
    _permit: Permit,
) -> SkillResult {
    let record = Record::begin(call);
    let span = tracing::info_span!(target: "otel", "invoke", otel.kind = "server",
        skill_id = call.skill_id, call_id = call.call_id, trace_id = call.trace.id);
    spans::place(&span, &call.trace);
    let outcome = match run(gateway, shard, call, listener, &span).instrument(span.clone()).await {
        Ok(outcome) => outcome,
        Err(error) => Outcome::failed(error),
    };
    let result = outcome::result(call, outcome);
    gateway.metrics.ended(result.error.as_ref().map(SkillError::code));
    record.end(&result);
    result
}

/// The gateway has no place for another call.
pub(crate) fn full() -> SkillError {
    SkillError::new(ErrorCode::Overloaded, "the gateway is full").with_retry_after_ms(1000)
}

/// The result of a call for which the gateway has no place.
pub(crate) fn turn_away(call: &Call) -> SkillResult {
    let record = Record::begin(call);
    let result = outcome::result(call, Outcome::failed(full()));
    record.end(&result);
    result
}

async fn run(
    gateway: &Gateway,
    shard: usize,
    call: &Call,
    listener: Option<&Listener>,
    span: &tracing::Span,
) -> Result<Outcome, SkillError> {
    if let Some(fault) = &call.fault {
        return Err(fault.clone());
    }
    let entry = look_up(gateway, call)?;
    let prepared = prepare(call, &entry.definition, &gateway.metrics);
    if let Some(error) = unavailable(&entry) {
        return Ok(Outcome::failed(error).with(prepared.unwrap_or_default()));
    }
    let prepared = prepared?;
    let attempt = Attempt {
        request: ExecuteRequest {
            skill_id: call.skill_id.clone(),
            call_id: call.call_id.clone(),
            session_id: call.session_id.clone(),
            input_json: prepared.json.clone(),
            trace_id: call.trace.id.clone(),
            timeout_ms: 0,
        },
        traceparent: &spans::context_of(span).unwrap_or(call.trace.context).to_traceparent(),
        tracestate: &call.trace.state,
        deadline: call.deadline(gateway.config.default_timeout, entry.skill.timeout_ms),
    };
    Ok(dispatch(&entry, &attempt, shard, listener).await.with(prepared))
}

fn look_up(gateway: &Gateway, call: &Call) -> Result<Arc<Entry>, SkillError> {
    let id = &call.skill_id;
    let Some(entry) = gateway.catalog.get(id) else {
        return Err(if gateway.is_ready() {
            let near = gateway.catalog.nearest(id).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
            let message = format!("there is no such skill: GET /skills or ListSkills lists them{near}");
            SkillError::new(ErrorCode::NotFound, message)
        } else {
            SkillError::new(ErrorCode::Unavailable, "there is no such skill now: no worker is up")
        });
    };
    match &call.toolset {
        Some(toolset) if !entry.skill.toolset.is_empty() && entry.skill.toolset != *toolset => {
            let own = &entry.skill.toolset;
            let message =
                format!("the skill '{id}' belongs to the toolset '{own}': write <{own}><{id}>{{...}}</{id}></{own}>");
            Err(SkillError::new(ErrorCode::InvalidArgument, message))
        }
        _ => Ok(entry),
    }
}

/// Why the skill can't be called at all now, if it can't.
fn unavailable(entry: &Entry) -> Option<SkillError> {
    let message = || format!("the skill can't run on any worker: {}", entry.skill.status_reason);
    // Trying again does not help before someone has changed a worker.
    let error = || SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, message()) };
    entry.workers.is_empty().then(error)
}
