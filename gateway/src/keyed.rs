//! A call with an idempotency key: made once, told to all who ask.
//!
//! It goes on without its client, up to its deadline. A key says that somebody means to ask again: the answer should be
//! there then, and not the news that the first call was ended half way.

use std::sync::atomic::Ordering;
use std::time::Instant;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use tokio::sync::{oneshot, watch};
use tracing::Instrument as _;

use crate::admission::Permit;
use crate::idempotency::{Claim, Ended, Name, Ticket};
use crate::invoke::{Work, finish};
use crate::outcome::Outcome;
use crate::recorder::Record;

/// Makes the call, or waits for the one that was made with its key.
pub(crate) async fn keyed(work: Work, permit: Permit) -> Result<Outcome, SkillError> {
    loop {
        let (call, keys) = (&work.call, &work.gateway.keys);
        let ended = match keys.claim(Name::of(call), &work.json, Instant::now()) {
            Claim::First(ticket) => return Ok(make(work, ticket, permit).await),
            Claim::Over(ended) => ended,
            Claim::Running(end) => wait(end, work.deadline()).await?,
            Claim::Mismatch => {
                let message =
                    "this idempotency_key was used with other arguments, byte for byte: a new call needs a new key";
                return Err(SkillError::new(ErrorCode::InvalidArgument, message));
            }
            Claim::Full => return Err(SkillError::overloaded("there are too many idempotency keys")),
        };
        match ended {
            Ended::With(outcome) => {
                work.gateway.metrics.replayed();
                let mut outcome = Outcome::clone(&outcome);
                if let Some(error) = &mut outcome.result.error {
                    // With this key the answer stays what it is.
                    (error.retryable, error.retry_after_ms) = (false, 0);
                }
                outcome.warnings.push("this is the result of an earlier call with the same idempotency_key".to_owned());
                return Ok(outcome);
            }
            Ended::Unknown => return Err(unknown()),
            // It did not run, so this one may.
            Ended::Refused => {}
        }
    }
}

/// Makes the call in a task of its own. The permit is held to its end.
async fn make(work: Work, ticket: Ticket, permit: Permit) -> Outcome {
    let tasks = work.gateway.tasks.clone();
    let (tell, told) = oneshot::channel();
    work.call.goes_on.store(true, Ordering::Relaxed);
    let run = async move {
        let _permit = permit;
        let record = Record::of_run(&work.call);
        let outcome = work.execute().await;
        ticket.end(&outcome);
        finish(&work.gateway, &work.call, outcome.clone(), record);
        // The client may be gone.
        let _ = tell.send(outcome);
    };
    tasks.spawn(run.in_current_span());
    told.await.unwrap_or_else(|_| Outcome { may_have_run: true, ..Outcome::failed(unknown()) })
}

async fn wait(mut end: watch::Receiver<Option<Ended>>, deadline: Instant) -> Result<Ended, SkillError> {
    match tokio::time::timeout_at(deadline.into(), end.wait_for(Option::is_some)).await {
        Ok(ended) => Ok(ended.ok().and_then(|it| it.clone()).unwrap_or(Ended::Unknown)),
        Err(_) => {
            let message = "the deadline passed while the first call with this idempotency_key was running";
            Err(SkillError::new(ErrorCode::Timeout, message).with_blame(Blame::Caller))
        }
    }
}

fn unknown() -> SkillError {
    let message =
        "a call with this idempotency_key may have run, and its result is not kept: look before you use a new key";
    SkillError { retryable: false, ..SkillError::new(ErrorCode::Unavailable, message) }.with_blame(Blame::Gateway)
}
