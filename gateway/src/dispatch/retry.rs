//! Whether to try a call again. Pure: [`decide`]. The retry budget can still veto a second run (`dispatch.rs`).

use std::time::Duration;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::attempt_end::AttemptEnd;
use crate::workers::client::Refusal;

/// How many workers a call is brought to.
pub(crate) const MAX_ATTEMPTS: u32 = 3;

/// How many workers say that a call would be late before the others need not be asked: they are as busy, and a caller that
/// is refused at once can do something else.
const MAX_LATE: u32 = 2;

/// The first backoff before a skill runs again. It doubles with each attempt, and jitter adds up to as much again.
const BACKOFF: Duration = Duration::from_millis(10);

/// What the decision depends on, beside how the attempt ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts {
    /// Attempts so far, this one included.
    pub(crate) attempts: u32,
    /// The skill's manifest says that running it twice does no harm.
    pub(crate) idempotent: bool,
    /// The client has seen events of a run. They can't be taken back.
    pub(crate) has_relayed: bool,
}

/// What to do after an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decision {
    /// The call is over.
    Finish,
    /// The skill did not start: another worker may run it, at no risk.
    TryAnother,
    /// The skill ran, or may have. It may run again, within the retry budget.
    RunAgain {
        /// Not on the same worker: the failure was the worker's.
        elsewhere: bool,
    },
}

/// Decides after each attempt.
pub(crate) fn decide(end: &AttemptEnd, facts: Facts) -> Decision {
    if facts.attempts >= MAX_ATTEMPTS {
        return Decision::Finish;
    }
    let may_run_again = facts.idempotent && !facts.has_relayed;
    match end {
        AttemptEnd::NotStarted { refusal: Refusal::Late { .. }, .. } if facts.attempts >= MAX_LATE => Decision::Finish,
        AttemptEnd::NotStarted { .. } => Decision::TryAnother,
        AttemptEnd::Lost { .. } if may_run_again => Decision::RunAgain { elsewhere: true },
        AttemptEnd::Answered(result) if may_run_again => match &result.error {
            Some(error) if may_succeed_later(error) => Decision::RunAgain { elsewhere: error.blame() == Blame::Worker },
            _ => Decision::Finish,
        },
        AttemptEnd::Lost { .. } | AttemptEnd::Answered(_) | AttemptEnd::Overdue => Decision::Finish,
    }
}

/// After a timeout there is no time left for another run.
fn may_succeed_later(error: &SkillError) -> bool {
    error.retryable && error.code() != ErrorCode::Timeout
}

/// How long to wait before attempt number `attempts` + 1. `jitter` is from 0 to 1.
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
        let full =
            || AttemptEnd::NotStarted { reason: String::new(), refusal: Refusal::Full, status: "RESOURCE_EXHAUSTED" };
        let late = Refusal::Late { by: Duration::from_millis(5) };
        let late = || AttemptEnd::NotStarted { reason: String::new(), refusal: late, status: "RESOURCE_EXHAUSTED" };
        let lost = || AttemptEnd::Lost { reason: String::new(), status: "UNAVAILABLE" };
        let again = |elsewhere| Decision::RunAgain { elsewhere };
        let (idempotent, relayed) = (true, true);
        for (end, attempts, idempotent, relayed, expected) in [
            (ok(), 1, idempotent, !relayed, Decision::Finish),
            (full(), 1, !idempotent, !relayed, Decision::TryAnother),
            (full(), 2, !idempotent, relayed, Decision::TryAnother),
            (full(), 3, !idempotent, !relayed, Decision::Finish),
            (late(), 1, !idempotent, !relayed, Decision::TryAnother),
            (late(), 2, idempotent, !relayed, Decision::Finish),
            (lost(), 1, !idempotent, !relayed, Decision::Finish),
            (lost(), 1, idempotent, !relayed, again(true)),
            (lost(), 1, idempotent, relayed, Decision::Finish),
            (lost(), 3, idempotent, !relayed, Decision::Finish),
            (AttemptEnd::Overdue, 1, idempotent, !relayed, Decision::Finish),
            (failed(ErrorCode::NetworkError), 1, idempotent, !relayed, again(false)),
            (failed(ErrorCode::NetworkError), 1, !idempotent, !relayed, Decision::Finish),
            (failed(ErrorCode::NetworkError), 1, idempotent, relayed, Decision::Finish),
            (failed(ErrorCode::ToolInvocationError), 2, idempotent, !relayed, again(true)),
            (failed(ErrorCode::ExecutionError), 1, idempotent, !relayed, Decision::Finish),
            (failed(ErrorCode::Timeout), 1, idempotent, !relayed, Decision::Finish),
        ] {
            let decision = decide(&end, Facts { attempts, idempotent, has_relayed: relayed });
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
