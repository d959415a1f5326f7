//! Runs a call with an idempotency key once, and gives every caller that sends the key the same result.
//!
//! The call continues after its client disconnects, up to its deadline. A client that sends a key intends to retry:
//! the retry should get the result, not learn that the first call was cancelled halfway.

use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use tokio::sync::{oneshot, watch};

use super::admission::Permit;
use super::idempotency::{Fingerprint, KeyedOutcome, Lease, Lookup};
use crate::call::blocking_pool::HEAVY_BYTES;
use crate::call::outcome::Outcome;
use crate::dispatch::context::CallContext;
use crate::observe::call_event::CallEvent;

/// Runs `execution` if this is the first call with its key. Otherwise waits for the first call.
///
/// # Errors
/// The key was used with other arguments or another version, or there are too many keys. This call does not run.
pub(crate) async fn once(
    context: Arc<CallContext>,
    permit: Permit,
    execution: impl Future<Output = Outcome> + Send + 'static,
) -> Result<Outcome, SkillError> {
    let gateway = &context.shard.gateway;
    let fingerprint = fingerprint(&context).await;
    loop {
        let ended = match gateway.keys.look_up(&context.call, fingerprint, Instant::now()) {
            Lookup::First(lease) => return Ok(detach(&context, lease, permit, execution).await),
            Lookup::Over(ended) => ended,
            Lookup::Running(end) => {
                let waited = wait(end, context.deadline);
                tokio::select! {
                    biased;
                    waited = waited => match waited {
                        Some(ended) => ended,
                        None => return Ok(may_have_run(overdue())),
                    },
                    () = context.call.cancellation.notified() => return Ok(Outcome::cancelled(&context.call, true)),
                }
            }
            Lookup::Mismatch => {
                let message = "this idempotency_key was used with different arguments, compared byte for byte, or \
                               another version: use a new key for a new call";
                return Err(SkillError::new(ErrorCode::InvalidArgument, message));
            }
            Lookup::Full(bound) => return Err(bound.into()),
        };
        match ended {
            KeyedOutcome::With(outcome) => {
                gateway.observer.metrics.replays.inc();
                context.record.note(|| CallEvent::Replayed);
                return Ok(replay(&outcome));
            }
            KeyedOutcome::Unknown => return Ok(may_have_run(unknown())),
            // The first call did not run, so this one may.
            KeyedOutcome::Refused => {}
        }
    }
}

/// Runs the call in a separate task, which keeps the permit and records the outcome.
async fn detach(
    context: &Arc<CallContext>,
    lease: Lease,
    permit: Permit,
    execution: impl Future<Output = Outcome> + Send + 'static,
) -> Outcome {
    let (sender, receiver) = oneshot::channel();
    let shared = Arc::clone(context);
    let run = async move {
        let _permit = permit;
        let outcome = execution.await;
        lease.end(&outcome);
        shared.record.end(&outcome);
        // Sending fails if the client is gone.
        let _ = sender.send(outcome);
    };
    context.shard.gateway.tasks.spawn(run);
    receiver.await.unwrap_or_else(|_| may_have_run(unknown()))
}

fn replay(outcome: &Outcome) -> Outcome {
    let mut outcome = outcome.clone();
    if let Some(error) = &mut outcome.result.error {
        // A retry with this key would get the same answer.
        (error.retryable, error.retry_after_ms) = (false, 0);
    }
    outcome.warnings.push("this is the result of an earlier call with the same idempotency_key".to_owned());
    outcome
}

/// Waits until the first call ends. None if the deadline passes first.
async fn wait(mut end: watch::Receiver<Option<KeyedOutcome>>, deadline: Instant) -> Option<KeyedOutcome> {
    let ended = tokio::time::timeout_at(deadline.into(), end.wait_for(Option::is_some)).await.ok()?;
    Some(ended.ok().and_then(|it| it.clone()).unwrap_or(KeyedOutcome::Unknown))
}

/// Hashes the arguments and the named version, to compare calls with the same key. Hashes large arguments in the blocking
/// pool. They are hashed as they were sent, because repairs and defaults change with the skill.
async fn fingerprint(context: &CallContext) -> Fingerprint {
    let call = Arc::clone(&context.call);
    let hash = move || Fingerprint::new(&call.version, call.input.text().as_bytes());
    if context.call.input.text().len() <= HEAVY_BYTES {
        return hash();
    }
    context.shard.gateway.blocking_pool.run(hash).await
}

/// Builds the outcome of a failed call whose skill may still run for the first call with the key.
fn may_have_run(error: SkillError) -> Outcome {
    Outcome { may_have_run: true, ..Outcome::from_error(SkillError { may_have_run: true, ..error }) }
}

fn overdue() -> SkillError {
    let message = "the deadline passed while the first call with this idempotency_key was running";
    SkillError::new(ErrorCode::Timeout, message).with_blame(Blame::Caller)
}

fn unknown() -> SkillError {
    let message = "a call with this idempotency_key may have run, and its result is no longer known: \
                   check its effect before you use a new key";
    SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, message) }.with_blame(Blame::Gateway)
}
