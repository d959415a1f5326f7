//! A call with an idempotency key: it runs once, and everyone who sends it gets the same result.
//!
//! It continues without its client, up to its deadline. A key says that the client will ask again: the result should be
//! there then, and not the news that the first call was cancelled half way.

use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use tokio::sync::{oneshot, watch};

use super::admission::Permit;
use super::idempotency::{Ended, Fingerprint, Lease, Lookup};
use crate::call::aside::HEAVY_BYTES;
use crate::call::outcome::Outcome;
use crate::dispatch::context::CallContext;
use crate::observe::call_event::CallEvent;

/// Polls `execution` if this is the first call with its key; else waits for the call that is.
///
/// # Errors
/// The key was used with other arguments, or there are too many keys. This call does not run.
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
            Lookup::Running(end) => match wait(end, context.deadline).await {
                Some(ended) => ended,
                None => return Ok(may_have_run(overdue())),
            },
            Lookup::Mismatch => {
                let message =
                    "this idempotency_key was used with other arguments, byte for byte: a new call needs a new key";
                return Err(SkillError::new(ErrorCode::InvalidArgument, message));
            }
            Lookup::Full(bound) => return Err(bound.into()),
        };
        match ended {
            Ended::With(outcome) => {
                gateway.observer.call_replayed();
                context.record.note(|| CallEvent::Replayed);
                return Ok(replay(&outcome));
            }
            Ended::Unknown => return Ok(may_have_run(unknown())),
            // It did not run, so this one may.
            Ended::Refused => {}
        }
    }
}

/// Runs the call in a task of its own, which holds the permit and records its end.
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
        // The client may be gone.
        let _ = sender.send(outcome);
    };
    context.shard.gateway.tasks.spawn(run);
    receiver.await.unwrap_or_else(|_| may_have_run(unknown()))
}

fn replay(outcome: &Outcome) -> Outcome {
    let mut outcome = outcome.clone();
    if let Some(error) = &mut outcome.result.error {
        // With this key the answer will not change.
        (error.retryable, error.retry_after_ms) = (false, 0);
    }
    outcome.warnings.push("this is the result of an earlier call with the same idempotency_key".to_owned());
    outcome
}

/// How the first call ended. None: the deadline passed first.
async fn wait(mut end: watch::Receiver<Option<Ended>>, deadline: Instant) -> Option<Ended> {
    let ended = tokio::time::timeout_at(deadline.into(), end.wait_for(Option::is_some)).await.ok()?;
    Some(ended.ok().and_then(|it| it.clone()).unwrap_or(Ended::Unknown))
}

/// What tells the arguments of calls with one key apart. Large ones are hashed aside.
async fn fingerprint(context: &CallContext) -> Fingerprint {
    let arguments = context.arguments.clone();
    if arguments.len() <= HEAVY_BYTES {
        return Fingerprint::of(&arguments);
    }
    context.shard.gateway.aside.run(move || Fingerprint::of(&arguments)).await
}

/// A failure of a call whose skill may run on behalf of the first call with its key.
fn may_have_run(error: SkillError) -> Outcome {
    Outcome { may_have_run: true, ..Outcome::failed(SkillError { may_have_run: true, ..error }) }
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
