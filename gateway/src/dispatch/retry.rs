//! Decides whether to try a call again. Pure: [`decide`]. The retry budget can still veto a second run
//! (`dispatch.rs`).

use std::time::Duration;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::attempt_end::AttemptEnd;
use crate::workers::client::{CallError, WorkerRefusal};

/// The maximum number of workers that a call is sent to.
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// The number of attempts after which a call that would be late is not sent to other workers. They are probably as
/// busy, and a fast refusal lets the caller react.
const MAX_LATE: u32 = 2;

/// The first backoff before a skill runs again. It doubles with each attempt. Jitter adds up to the same time
/// again.
const BACKOFF: Duration = Duration::from_millis(10);

/// What to do after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// The call is over.
    Finish,
    /// The skill did not start, so another worker may safely run it.
    TryAnother,
    /// The skill ran, or may have. It may run again, within the retry budget.
    RunAgain {
        /// Whether to avoid the same worker, because the failure was its fault.
        elsewhere: bool,
    },
}

/// Decides what to do after `attempts` attempts, of which the last one ended with `end`. `may_run_again`: running the
/// skill twice does no harm.
pub(crate) fn decide(end: &AttemptEnd, attempts: u32, may_run_again: bool) -> RetryDecision {
    if attempts >= MAX_ATTEMPTS {
        return RetryDecision::Finish;
    }
    match end {
        // Another gateway has the operation, and may have started it on another worker.
        AttemptEnd::Unanswered(error) if error.is_superseded() => RetryDecision::Finish,
        AttemptEnd::Unanswered(CallError { refusal: Some(refusal), .. }) => match refusal {
            WorkerRefusal::Late { .. } if attempts >= MAX_LATE => RetryDecision::Finish,
            _ => RetryDecision::TryAnother,
        },
        AttemptEnd::Unanswered(_) if may_run_again => RetryDecision::RunAgain { elsewhere: true },
        AttemptEnd::Answered(result) if may_run_again => match &result.error {
            Some(error) if may_succeed_later(error) => {
                RetryDecision::RunAgain { elsewhere: error.blame() == Blame::Worker }
            }
            _ => RetryDecision::Finish,
        },
        AttemptEnd::Unanswered(_) | AttemptEnd::Answered(_) | AttemptEnd::Overdue => RetryDecision::Finish,
    }
}

/// Whether another run may succeed. After a timeout, no time is left for one.
fn may_succeed_later(error: &SkillError) -> bool {
    error.retryable && error.code() != ErrorCode::Timeout
}

/// Returns the delay before attempt number `attempts` + 1. `jitter` is between 0 and 1.
pub(crate) fn backoff(attempts: u32, jitter: f64) -> Duration {
    let base = BACKOFF * 2_u32.pow(attempts.clamp(1, 8) - 1);
    base + base.mul_f64(jitter)
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::ExecuteResult;

    use super::*;

    fn failed(code: ErrorCode) -> AttemptEnd {
        AttemptEnd::Answered(ExecuteResult { error: Some(SkillError::new(code, "")), ..ExecuteResult::default() })
    }

    #[test]
    fn the_decision_table() {
        let ok = || AttemptEnd::Answered(ExecuteResult { success: true, ..ExecuteResult::default() });
        let unanswered = |refusal, status| AttemptEnd::Unanswered(CallError { reason: String::new(), refusal, status });
        let full = || unanswered(Some(WorkerRefusal::Full), "RESOURCE_EXHAUSTED");
        let late = WorkerRefusal::Late { by: Duration::from_millis(5) };
        let late = || unanswered(Some(late), "RESOURCE_EXHAUSTED");
        let fenced = || unanswered(Some(WorkerRefusal::Declined), "ABORTED");
        let lost = || unanswered(None, "UNAVAILABLE");
        let again = |elsewhere| RetryDecision::RunAgain { elsewhere };
        let (idempotent, relayed) = (true, true);
        for (end, attempts, idempotent, relayed, expected) in [
            (ok(), 1, idempotent, !relayed, RetryDecision::Finish),
            (full(), 1, !idempotent, !relayed, RetryDecision::TryAnother),
            (full(), 2, !idempotent, relayed, RetryDecision::TryAnother),
            (fenced(), 1, idempotent, !relayed, RetryDecision::Finish),
            (full(), 3, !idempotent, !relayed, RetryDecision::Finish),
            (late(), 1, !idempotent, !relayed, RetryDecision::TryAnother),
            (late(), 2, idempotent, !relayed, RetryDecision::Finish),
            (lost(), 1, !idempotent, !relayed, RetryDecision::Finish),
            (lost(), 1, idempotent, !relayed, again(true)),
            (lost(), 1, idempotent, relayed, RetryDecision::Finish),
            (lost(), 3, idempotent, !relayed, RetryDecision::Finish),
            (AttemptEnd::Overdue, 1, idempotent, !relayed, RetryDecision::Finish),
            (failed(ErrorCode::NetworkError), 1, idempotent, !relayed, again(false)),
            (failed(ErrorCode::NetworkError), 1, !idempotent, !relayed, RetryDecision::Finish),
            (failed(ErrorCode::NetworkError), 1, idempotent, relayed, RetryDecision::Finish),
            (failed(ErrorCode::ToolInvocationError), 2, idempotent, !relayed, again(true)),
            (failed(ErrorCode::ExecutionError), 1, idempotent, !relayed, RetryDecision::Finish),
            (failed(ErrorCode::Timeout), 1, idempotent, !relayed, RetryDecision::Finish),
        ] {
            let decision = decide(&end, attempts, idempotent && !relayed);
            assert_eq!(decision, expected, "{end:?}, attempt {attempts}, {idempotent} {relayed}");
        }
    }

    #[test]
    fn the_backoff_doubles_and_jitter_adds_at_most_as_much_again() {
        assert_eq!(backoff(1, 0.0), BACKOFF);
        assert_eq!(backoff(2, 0.0), BACKOFF * 2);
        assert_eq!(backoff(2, 1.0), BACKOFF * 4);
    }
}
