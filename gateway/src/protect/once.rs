//! Runs a call with an idempotency key once, and gives every caller that sends the key the same result.
//!
//! The call continues after its client disconnects, up to its deadline. A client that sends a key intends to retry:
//! the retry should get the result, not learn that the first call was cancelled halfway.
//!
//! Calls that come to the same gateway share what the memory of the gateway knows. Only the first of them looks in the
//! store, where an earlier call may be that ran at another gateway or before a restart.

use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use tokio::sync::{oneshot, watch};

use super::admission::Permit;
use super::idempotency::stored_keys::{StoredClaim, StoredKey};
use super::idempotency::{Fingerprint, KeyedOutcome, Lease, Lookup};
use crate::call::blocking_pool::HEAVY_BYTES;
use crate::call::outcome::Outcome;
use crate::dispatch::context::CallContext;
use crate::observe::call_event::CallEvent;

/// Runs `execution` if this is the first call with its key. Otherwise waits for the first call.
///
/// # Errors
/// The key was used with other arguments or another version, there are too many keys, or the store of keys can't be used.
/// This call does not run.
pub(crate) async fn once(
    context: Arc<CallContext>,
    permit: Permit,
    execution: impl Future<Output = Outcome> + Send + 'static,
) -> Result<Outcome, SkillError> {
    let gateway = &context.shard.gateway;
    let fingerprint = fingerprint(&context).await;
    loop {
        let ended = match gateway.keys.look_up(&context.call, fingerprint, Instant::now()) {
            Lookup::First(lease) => return detach(&context, lease, fingerprint, permit, execution).await,
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
            Lookup::Mismatch => return Err(mismatch()),
            Lookup::Full(bound) => return Err(bound.into()),
        };
        // If the first call did not run, this one may.
        if let Some(outcome) = answer(&context, &ended) {
            return Ok(outcome);
        }
    }
}

/// Runs the call in a separate task, which keeps the permit and records the outcome.
async fn detach(
    context: &Arc<CallContext>,
    lease: Lease,
    fingerprint: Fingerprint,
    permit: Permit,
    execution: impl Future<Output = Outcome> + Send + 'static,
) -> Result<Outcome, SkillError> {
    let (sender, receiver) = oneshot::channel();
    let shared = Arc::clone(context);
    let run = async move {
        let _permit = permit;
        let ended = run_first(&shared, lease, fingerprint, execution).await;
        // Sending fails if the client is gone.
        let _ = sender.send(ended);
    };
    context.shard.gateway.tasks.spawn(run);
    receiver.await.unwrap_or_else(|_| Ok(may_have_run(unknown())))
}

/// Runs the call that is the first with its key here, unless the store knows an earlier one.
async fn run_first(
    context: &CallContext,
    lease: Lease,
    fingerprint: Fingerprint,
    execution: impl Future<Output = Outcome>,
) -> Result<Outcome, SkillError> {
    let (call, gateway) = (&context.call, &context.shard.gateway);
    let claimed = match gateway.long_running.key_store() {
        Ok(None) => None,
        Ok(Some(store)) => Some(gateway.keys.stored.claim(store, call, fingerprint, context.deadline).await),
        Err(error) => Some(Err(error)),
    };
    let (ended, answered) = match claimed {
        None => return Ok(run(context, lease, None, execution).await),
        Some(Ok(StoredClaim::First(key))) => return Ok(run(context, lease, Some(*key), execution).await),
        Some(Ok(StoredClaim::Over(ended))) => {
            let outcome = answer(context, &ended).unwrap_or_else(|| may_have_run(unknown()));
            (ended, Ok(outcome))
        }
        Some(Ok(StoredClaim::Mismatch)) => (KeyedOutcome::Refused, Err(mismatch())),
        Some(Ok(StoredClaim::Overdue)) => (KeyedOutcome::Refused, Ok(may_have_run(overdue()))),
        Some(Ok(StoredClaim::Cancelled)) => (KeyedOutcome::Refused, Ok(Outcome::cancelled(call, true))),
        Some(Err(error)) => (KeyedOutcome::Refused, Err(error)),
    };
    lease.pass_on(ended);
    answered
}

/// Runs the call, and stores how it ended before anybody learns of it.
async fn run(
    context: &CallContext,
    lease: Lease,
    key: Option<StoredKey>,
    execution: impl Future<Output = Outcome>,
) -> Outcome {
    let outcome = execution.await;
    if let Some(key) = key {
        key.end(&outcome).await;
    }
    lease.end(&outcome);
    context.record.end(&outcome);
    outcome
}

/// What a caller gets of an earlier call with its key. None if that call did not run.
fn answer(context: &CallContext, ended: &KeyedOutcome) -> Option<Outcome> {
    match ended {
        KeyedOutcome::With(outcome) => {
            context.shard.gateway.observer.metrics.replays.inc();
            context.record.note(|| CallEvent::Replayed);
            Some(replay(outcome))
        }
        KeyedOutcome::Unknown => Some(may_have_run(unknown())),
        KeyedOutcome::Refused => None,
    }
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

fn mismatch() -> SkillError {
    let message = "this idempotency_key was used with different arguments, compared byte for byte, or another version: \
                   use a new key for a new call";
    SkillError::new(ErrorCode::InvalidArgument, message)
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
