//! The story of a call: catalog, arguments, circuits, dispatch to a worker, result.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use futures_util::FutureExt as _;
use openskill_proto::v1::{ErrorCode, SkillError, SkillResult};
use tower::{Layer as _, Service as _, service_fn};
use tracing::Instrument as _;

use crate::admission::Permit;
use crate::call::{Call, granted};
use crate::catalog::Entry;
use crate::circuit::layer::CircuitLayer;
use crate::dispatch::{Run, dispatch};
use crate::gateway::Gateway;
use crate::keyed::keyed;
use crate::outcome::{self, Outcome};
use crate::preparation::prepare;
use crate::recorder::Record;
use crate::relay::Listener;
use crate::workers::attempt::Attempt;

/// Runs one call to its result. Dropping the future ends the call everywhere, unless it has an idempotency key. The
/// permit is held to the end.
pub(crate) async fn invoke(
    gateway: &Arc<Gateway>,
    shard: usize,
    call: &Arc<Call>,
    listener: Option<&Listener>,
    permit: Permit,
    record: Record<'_>,
) -> SkillResult {
    let span = tracing::info_span!(target: "otel", "invoke", otel.kind = "server",
        skill_id = call.skill_id, call_id = call.call_id, trace_id = call.trace.id);
    openskill_trace::attach(&span, &call.trace);
    let outcome = match run(gateway, shard, call, listener, &span, permit).instrument(span.clone()).await {
        Ok(outcome) => outcome,
        Err(error) => Outcome::failed(error),
    };
    finish(gateway, call, outcome, record)
}

/// The result of a call that was refused before anything was done for it.
pub(crate) fn turn_away(gateway: &Gateway, call: &Arc<Call>, error: SkillError) -> SkillResult {
    finish(gateway, call, Outcome::failed(error), Record::begin(call))
}

/// Makes the result, and tells of it once.
pub(crate) fn finish(gateway: &Gateway, call: &Call, outcome: Outcome, record: Record<'_>) -> SkillResult {
    let result = outcome::result(call, outcome);
    if record.end(&result) {
        gateway.metrics.ended(result.error.as_ref().map(SkillError::code));
    }
    result
}

async fn run(
    gateway: &Arc<Gateway>,
    shard: usize,
    call: &Arc<Call>,
    listener: Option<&Listener>,
    span: &tracing::Span,
    permit: Permit,
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
    let work = Work {
        gateway: Arc::clone(gateway),
        shard,
        call: Arc::clone(call),
        entry,
        json: prepared.json.clone(),
        traceparent: openskill_trace::context_of(span).unwrap_or(call.trace.context).to_traceparent(),
        listener: listener.cloned(),
    };
    let outcome = if call.idempotency_key.is_empty() {
        let _permit = permit;
        Ok(work.execute().await)
    } else {
        Box::pin(keyed(work, permit)).await
    };
    Ok(outcome.unwrap_or_else(Outcome::failed).with(prepared))
}

/// A call that is ready to be made.
pub(crate) struct Work {
    pub(crate) gateway: Arc<Gateway>,
    shard: usize,
    pub(crate) call: Arc<Call>,
    entry: Arc<Entry>,
    /// The arguments.
    pub(crate) json: Bytes,
    traceparent: String,
    listener: Option<Listener>,
}

impl Work {
    pub(crate) fn deadline(&self) -> Instant {
        self.call.deadline(self.gateway.config.default_timeout, self.entry.skill.timeout_ms)
    }

    /// Makes the call, if the circuits let it through.
    pub(crate) async fn execute(&self) -> Outcome {
        let call = &*self.call;
        let attempt = Attempt { call, json: &self.json, traceparent: &self.traceparent, deadline: self.deadline() };
        let granted = granted(self.gateway.config.default_timeout, self.entry.skill.timeout_ms);
        let run = Run {
            gateway: &self.gateway,
            entry: &self.entry,
            attempt,
            shard: self.shard,
            listener: self.listener.as_ref(),
            granted,
            shortened: call.is_shortened(granted),
        };
        let circuits = CircuitLayer { circuits: &self.gateway.circuits, metrics: &self.gateway.metrics };
        let mut guarded = circuits.layer(service_fn(|run| dispatch(run).map(Ok::<_, Infallible>)));
        match guarded.call(run).await {
            Ok(outcome) => outcome,
            Err(never) => match never {},
        }
    }
}

fn look_up(gateway: &Gateway, call: &Call) -> Result<Arc<Entry>, SkillError> {
    let id = &call.skill_id;
    let Some(entry) = gateway.catalog.get(id) else {
        return Err(if gateway.catalog.had_lately(id) {
            let message = "no worker offers this skill now, though one did a moment ago: try again";
            SkillError::unavailable(message)
        } else if gateway.is_ready() {
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
    entry.candidates.is_empty().then(error)
}
