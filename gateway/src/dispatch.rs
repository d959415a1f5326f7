//! Sends a call to a worker, and retries on another one where that is safe.
//!
//! - [`context`]: everything that is needed to run a call
//! - [`mod@delegate`]: runs a skill that is an agent in this process
//! - [`mod@choose`]: chooses the worker for the next attempt: [`pick`] by load and latency, or [`affinity`] of the
//!   session
//! - [`mod@attempt`]: runs one call on one worker; [`attempt_end`]: how that ended
//! - [`retry`]: decides whether to try again (pure); [`budget`]: limits how often
//! - [`lateness`]: recent refusals of calls that would miss their deadlines
//! - [`kept_run`]: runs of operations, which outlive this gateway
//! - [`questions`], [`artifacts`]: follow-up requests to the worker that ran the call

use std::sync::Arc;
use std::time::Instant;

pub(crate) mod affinity;
pub(crate) mod artifacts;
pub(crate) mod attempt;
pub(crate) mod attempt_end;
pub(crate) mod budget;
pub(crate) mod choose;
pub(crate) mod consult;
pub(crate) mod context;
mod delegate;
pub(crate) mod kept_run;
pub(crate) mod lateness;
pub(crate) mod pick;
pub(crate) mod questions;
pub(crate) mod retry;

use openskill_proto::v1::{ErrorCode, SkillError};

use attempt::attempt;
use attempt_end::{AttemptEnd, too_many_wait};
use choose::{NoWorker, choose};
use delegate::delegate;
use pick::no_candidate;
use retry::{MAX_ATTEMPTS, RetryDecision, backoff, decide};

use crate::call::claim::CallClaim;
use crate::call::events::EventRelay;
use crate::call::outcome::Outcome;
use crate::dispatch::context::CallContext;
use crate::observe::call_event::CallEvent;

/// Runs the call on one of its skill's workers, or here if the skill is an agent. Ends shortly after the deadline
/// at the latest.
pub(crate) async fn dispatch(context: &CallContext) -> Outcome {
    if let Some(agent) = &context.entry.agent {
        // Boxed, so that the future of every other call stays small.
        return Box::pin(delegate(context, agent)).await;
    }
    let gateway = &context.shard.gateway;
    if let Some(late_by) = gateway.lateness.late_by(&context.call, context.deadline, Instant::now()) {
        gateway.observer.metrics.refusals.inc("worker");
        return Outcome::from_error(too_many_wait(late_by));
    }
    let refusal_watch = gateway.lateness.watch(&context.call);
    let outcome = run_on_workers(context).await;
    refusal_watch.disarm();
    outcome
}

/// Runs the call on one of its skill's workers, and retries on others if that is safe.
async fn run_on_workers(context: &CallContext) -> Outcome {
    let gateway = &context.shard.gateway;
    gateway.retries.deposit();
    let (mut tried, mut late_by) = (Vec::new(), None);
    let mut outcome = Outcome::from_error(no_candidate());
    while outcome.attempts < MAX_ATTEMPTS {
        let chosen = match choose(context, &tried) {
            Ok(chosen) => chosen,
            Err(NoWorker::Session(error)) if !outcome.may_have_run => {
                return Outcome { attempts: outcome.attempts, ..Outcome::from_error(error) };
            }
            Err(NoWorker::Now(error)) if outcome.attempts == 0 => return Outcome::from_error(error),
            // An earlier attempt's outcome is more informative.
            Err(_) => break,
        };
        outcome.attempts += 1;
        let worker = &chosen.candidate.worker;
        let end = attempt(context, &chosen.candidate, outcome.attempts).await;
        chosen.settle(context, &end);
        let decision = decide(&end, outcome.attempts, may_run_again(context));
        late_by = end.late_by();
        take_over(&mut outcome, end, context, worker.id());
        match decision {
            RetryDecision::Finish => break,
            RetryDecision::TryAnother => {
                context.record.note(|| CallEvent::Retried { number: outcome.attempts, elsewhere: true });
                gateway.observer.metrics.reroutes.inc();
                tried.push(Arc::clone(worker));
            }
            RetryDecision::RunAgain { elsewhere } => {
                if !gateway.retries.withdraw() {
                    break;
                }
                gateway.observer.metrics.reruns.inc();
                context.record.note(|| CallEvent::Retried { number: outcome.attempts, elsewhere });
                if elsewhere {
                    tried.push(Arc::clone(worker));
                }
                pause(context, outcome.attempts).await;
            }
        }
    }
    // Remember it if the workers refused the call for overload before its skill started.
    let code = outcome.result.error.as_ref().map(SkillError::code);
    if !outcome.may_have_run && code == Some(ErrorCode::Overloaded) {
        gateway.observer.metrics.refusals.inc("worker");
        if let Some(late_by) = late_by {
            gateway.lateness.record_refusal(&context.call, context.deadline, late_by, Instant::now());
        }
    }
    outcome
}

/// Whether running the skill twice does no harm: its manifest says so, and the client has received no events from a
/// run, which can't be undone. The events of an operation are those of all its runs.
fn may_run_again(context: &CallContext) -> bool {
    let is_followed = !context.call.claim.as_ref().is_some_and(CallClaim::is_stored);
    let has_relayed = is_followed && context.events.as_ref().is_some_and(EventRelay::has_relayed);
    context.entry.skill.idempotent && !has_relayed
}

/// Adopts the outcome of an attempt, unless an earlier attempt whose skill ran is more informative.
fn take_over(outcome: &mut Outcome, end: AttemptEnd, context: &CallContext, worker_id: String) {
    if end.may_have_run() || !outcome.may_have_run {
        outcome.may_have_run |= end.may_have_run();
        outcome.result = end.into_result(context, worker_id);
    }
}

async fn pause(context: &CallContext, attempts: u32) {
    let jitter = rand::random_range(0.0..1.0);
    let until = (Instant::now() + backoff(attempts, jitter)).min(context.deadline);
    tokio::time::sleep_until(until.into()).await;
}
