//! Brings a call to a worker, and to another one where that is safe.
//!
//! - [`context`]: everything a call needs to run
//! - [`mod@delegate`]: a skill that is an agent runs in this process
//! - [`mod@choose`]: the worker for the next attempt: [`pick`] by load and latency, or [`affinity`] of the session
//! - [`mod@attempt`]: one call at one worker, and [`attempt_end`]: how that went
//! - [`retry`]: whether to try again, a pure decision; [`budget`]: how often
//! - [`lateness`]: callers that workers refused a moment ago
//! - [`questions`], [`artifacts`]: what a caller asks of the worker that has its call

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
pub(crate) mod lateness;
pub(crate) mod pick;
pub(crate) mod questions;
pub(crate) mod retry;

use openskill_proto::v1::{ErrorCode, SkillError};

use attempt::attempt;
use attempt_end::{AttemptEnd, too_many_wait};
use choose::{NoWorker, choose};
use delegate::delegate;
use pick::NoCandidate;
use retry::{Decision, Facts, MAX_ATTEMPTS, backoff, decide};

use crate::call::events::EventRelay;
use crate::call::outcome::Outcome;
use crate::dispatch::context::CallContext;
use crate::observe::call_event::CallEvent;

/// Runs the call on one of its skill's workers, or here if the skill is an agent. Ends shortly after the deadline at the latest.
pub(crate) async fn dispatch(context: &CallContext) -> Outcome {
    if let Some(agent) = &context.entry.agent {
        // Boxed, so that the future of every other call stays small.
        return Box::pin(delegate(context, agent)).await;
    }
    let gateway = &context.shard.gateway;
    if let Some(late_by) = gateway.lateness.late_by(&context.call, context.deadline, Instant::now()) {
        gateway.observer.call_refused_by_workers();
        return Outcome::failed(too_many_wait(late_by));
    }
    let watched = gateway.lateness.watch(&context.call);
    let outcome = at_workers(context).await;
    watched.ended();
    outcome
}

/// Runs the call on one of its skill's workers, and on another one if that is safe.
async fn at_workers(context: &CallContext) -> Outcome {
    let gateway = &context.shard.gateway;
    gateway.retries.deposit();
    let (mut tried, mut late_by) = (Vec::new(), None);
    let mut outcome = Outcome::failed(NoCandidate.into());
    while outcome.attempts < MAX_ATTEMPTS {
        let chosen = match choose(context, &tried) {
            Ok(chosen) => chosen,
            Err(NoWorker::SessionLost(error)) if !outcome.may_have_run => {
                return Outcome { attempts: outcome.attempts, ..Outcome::failed(error) };
            }
            Err(NoWorker::Now(error)) if outcome.attempts == 0 => return Outcome::failed(error),
            // What the workers answered says more.
            Err(_) => break,
        };
        outcome.attempts += 1;
        let worker = &chosen.candidate.worker;
        let end = attempt(context, &chosen.candidate, outcome.attempts).await;
        chosen.settle(context, &end);
        let decision = decide(&end, facts(context, outcome.attempts));
        late_by = end.late_by();
        take_over(&mut outcome, end, context, worker.id());
        match decision {
            Decision::Finish => break,
            Decision::TryAnother => {
                context.record.note(|| CallEvent::Retried { number: outcome.attempts, elsewhere: true });
                gateway.observer.attempt_rerouted();
                tried.push(Arc::clone(worker));
            }
            Decision::RunAgain { elsewhere } => {
                if !gateway.retries.withdraw() {
                    break;
                }
                gateway.observer.attempt_retried();
                context.record.note(|| CallEvent::Retried { number: outcome.attempts, elsewhere });
                if elsewhere {
                    tried.push(Arc::clone(worker));
                }
                pause(context, outcome.attempts).await;
            }
        }
    }
    if was_refused(&outcome) {
        gateway.observer.call_refused_by_workers();
        if let Some(late_by) = late_by {
            gateway.lateness.refused(&context.call, context.deadline, late_by, Instant::now());
        }
    }
    outcome
}

/// Whether the call got no further than the workers' queues.
fn was_refused(outcome: &Outcome) -> bool {
    let code = outcome.result.error.as_ref().map(SkillError::code);
    !outcome.may_have_run && code == Some(ErrorCode::Overloaded)
}

fn facts(context: &CallContext, attempts: u32) -> Facts {
    let has_relayed = context.events.as_ref().is_some_and(EventRelay::has_relayed);
    Facts { attempts, idempotent: context.entry.skill.idempotent, has_relayed }
}

/// Keeps the end of an attempt, unless an earlier attempt, whose skill ran, says more.
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
