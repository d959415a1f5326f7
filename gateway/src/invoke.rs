//! The story of a call: catalog, arguments, deadline, worker, attempts, result.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::trace::spans;
use openskill_proto::v1::{Blame, ErrorCode, ExecuteRequest, ExecuteResult, SkillError, SkillResult};
use tracing::Instrument as _;

use crate::admission::Permit;
use crate::arguments;
use crate::call::Call;
use crate::catalog::Entry;
use crate::gateway::Gateway;
use crate::outcome::{self, Outcome};
use crate::recorder::Record;
use crate::relay::Listener;
use crate::workers::attempt::{Attempt, AttemptError};
use crate::workers::pick::pick;

/// How many workers a call may be brought to.
const MAX_ATTEMPTS: u32 = 3;

/// A worker ends what is over its deadline by itself; one that does not is given up this much later.
const WORKER_SLACK: Duration = Duration::from_millis(500);

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
    record.end(&result);
    result
}

/// The result of a call that was not let in.
pub(crate) fn turn_away(call: &Call, error: SkillError) -> SkillResult {
    let record = Record::begin(call);
    let result = outcome::result(call, Outcome::failed(error));
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
    let entry = look_up(gateway, &call.skill_id)?;
    let input = arguments::prepare(&call.input)?;
    let attempt = Attempt {
        request: ExecuteRequest {
            skill_id: call.skill_id.clone(),
            call_id: call.call_id.clone(),
            session_id: call.session_id.clone(),
            input_json: input.into(),
            trace_id: call.trace.id.clone(),
            timeout_ms: 0,
        },
        traceparent: &spans::context_of(span).unwrap_or(call.trace.context).to_traceparent(),
        tracestate: &call.trace.state,
        deadline: call.deadline(gateway.config.default_timeout, entry.skill.timeout_ms),
    };
    let until = attempt.deadline + WORKER_SLACK;
    let mut attempts = 0;
    match tokio::time::timeout_at(until.into(), try_workers(&entry, &attempt, shard, listener, &mut attempts)).await {
        Ok(outcome) => Ok(Outcome { attempts, ..outcome }),
        Err(_) => {
            let error = if listener.is_some_and(Listener::is_held_up) {
                let message = "the deadline passed while the client did not read the call's events";
                SkillError::new(ErrorCode::Timeout, message).with_blame(Blame::Caller)
            } else {
                SkillError::new(ErrorCode::Timeout, "the worker did not answer in time").with_blame(Blame::Worker)
            };
            Ok(Outcome { attempts, ..Outcome::failed(error) })
        }
    }
}

fn look_up(gateway: &Gateway, id: &str) -> Result<Arc<Entry>, SkillError> {
    let Some(entry) = gateway.catalog.get(id) else {
        let message = if gateway.is_ready() {
            "there is no such skill: GET /skills or ListSkills lists them"
        } else {
            "there is no such skill now: no worker is up"
        };
        let code = if gateway.is_ready() { ErrorCode::NotFound } else { ErrorCode::Unavailable };
        return Err(SkillError::new(code, message));
    };
    if entry.workers.is_empty() {
        let message = format!("the skill can't run on any worker: {}", entry.skill.status_reason);
        return Err(SkillError::new(ErrorCode::Unavailable, message));
    }
    Ok(entry)
}

/// Brings the call to one worker after another, for as long as the skill cannot have started or may run twice.
async fn try_workers(
    entry: &Entry,
    attempt: &Attempt<'_>,
    shard: usize,
    listener: Option<&Listener>,
    attempts: &mut u32,
) -> Outcome {
    let mut tried = Vec::new();
    let mut last = SkillError::new(ErrorCode::Unavailable, "no worker takes this call now").with_retry_after_ms(500);
    while *attempts < MAX_ATTEMPTS {
        if Instant::now() >= attempt.deadline {
            last = SkillError::new(ErrorCode::Timeout, "the deadline passed before a worker took the call");
            last = last.with_blame(Blame::Gateway);
            break;
        }
        let Some(worker) = pick(&entry.workers, &tried) else { break };
        *attempts += 1;
        match attempt.run(&worker, shard, listener).await {
            Ok(result) => return Outcome::of(result),
            Err(AttemptError::NotStarted { reason, full }) => {
                tracing::info!(endpoint = %worker.endpoint, reason, "not started, trying another worker");
                if full {
                    last = SkillError::new(ErrorCode::Overloaded, "the workers are full").with_retry_after_ms(1000);
                }
            }
            Err(AttemptError::Lost { reason }) => {
                tracing::warn!(endpoint = %worker.endpoint, reason, "a worker was lost during a call");
                last = SkillError::new(
                    ErrorCode::Unavailable,
                    "the worker was lost while the skill may have been running",
                );
                // Events of the first run can't be taken back, so a call that is listened to is not run again.
                if !entry.skill.idempotent || listener.is_some() {
                    break;
                }
            }
        }
        tried.push(worker);
    }
    Outcome::of(ExecuteResult { error: Some(last), ..ExecuteResult::default() })
}
