//! Brings a call to a worker, and to another one where that is safe.

use std::time::{Duration, Instant};

use openskill_proto::v1::{Blame, ErrorCode, ExecuteResult, SkillError};

use crate::catalog::Entry;
use crate::outcome::Outcome;
use crate::relay::Listener;
use crate::workers::attempt::{Attempt, AttemptError};
use crate::workers::pick::pick;

/// How many workers a call may be brought to.
const MAX_ATTEMPTS: u32 = 3;

/// A worker ends what is over its deadline by itself; one that does not is given up this much later.
const WORKER_SLACK: Duration = Duration::from_millis(500);

/// Runs the call on one of the skill's workers, never past the deadline by more than the slack.
pub(crate) async fn dispatch(
    entry: &Entry,
    attempt: &Attempt<'_>,
    shard: usize,
    listener: Option<&Listener>,
) -> Outcome {
    let until = attempt.deadline + WORKER_SLACK;
    let mut attempts = 0;
    let ended =
        tokio::time::timeout_at(until.into(), try_workers(entry, attempt, shard, listener, &mut attempts)).await;
    let result = ended.unwrap_or_else(|_| failed(overdue(listener)));
    Outcome::of_worker(result, attempts)
}

/// One worker after another, for as long as the skill cannot have started or may run twice.
async fn try_workers(
    entry: &Entry,
    attempt: &Attempt<'_>,
    shard: usize,
    listener: Option<&Listener>,
    attempts: &mut u32,
) -> ExecuteResult {
    let mut tried = Vec::new();
    let mut last = SkillError::new(ErrorCode::Unavailable, "no worker takes this call now").with_retry_after_ms(500);
    while *attempts < MAX_ATTEMPTS {
        if Instant::now() >= attempt.deadline {
            let error = SkillError::new(ErrorCode::Timeout, "the deadline passed before a worker took the call");
            return failed(error.with_blame(Blame::Gateway));
        }
        let Some(worker) = pick(&entry.workers, &tried) else { break };
        *attempts += 1;
        match attempt.run(&worker, shard, listener).await {
            Ok(result) => return result,
            Err(AttemptError::NotStarted { reason, full }) => {
                tracing::info!(endpoint = %worker.endpoint, reason, "not started, trying another worker");
                if full {
                    last = SkillError::new(ErrorCode::Overloaded, "the workers are full").with_retry_after_ms(1000);
                }
            }
            Err(AttemptError::Lost { reason }) => {
                tracing::warn!(endpoint = %worker.endpoint, reason, "a worker was lost during a call");
                let message = "the worker was lost while the skill may have been running";
                last = SkillError::new(ErrorCode::Unavailable, message);
                // Events of a first run can't be taken back.
                if !entry.skill.idempotent || listener.is_some_and(Listener::has_relayed) {
                    break;
                }
            }
        }
        tried.push(worker);
    }
    failed(last)
}

/// Who is to blame that there is still no result.
fn overdue(listener: Option<&Listener>) -> SkillError {
    if listener.is_some_and(Listener::is_held_up) {
        let message = "the deadline passed while the client did not read the call's events";
        SkillError::new(ErrorCode::Timeout, message).with_blame(Blame::Caller)
    } else {
        SkillError::new(ErrorCode::Timeout, "the worker did not answer in time").with_blame(Blame::Worker)
    }
}

fn failed(error: SkillError) -> ExecuteResult {
    ExecuteResult { error: Some(error), ..ExecuteResult::default() }
}
