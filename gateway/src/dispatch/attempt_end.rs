//! How one attempt ended, and what that means for the worker's record and for the caller.

use std::time::Duration;

use openskill_proto::error::GrpcCode;
use openskill_proto::v1::{Blame, ErrorCode, ExecuteResult, SkillError};

use super::pick::no_candidate;
use crate::call::events::EventRelay;
use crate::dispatch::context::CallContext;
use crate::observe::call_event::AttemptSummary;
use crate::workers::client::{CallError, WorkerRefusal};
use crate::workers::ejection::Verdict;

/// The fraction of its granted time that a skill must have had before a timeout is its fault.
const FULL_TIME: f64 = 0.9;

/// The bounds of the retry delay that a refused caller gets.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// How one attempt ended.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "moved a few times a call, where a box would be an allocation each")]
pub(crate) enum AttemptEnd {
    /// The worker responded.
    Answered(ExecuteResult),
    /// The worker did not respond.
    Unanswered(CallError),
    /// The worker responded neither by the deadline nor shortly after.
    Overdue,
}

impl AttemptEnd {
    /// The name in metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::Unanswered(error) if error.refusal.is_some() => "not_started",
            Self::Unanswered(_) => "lost",
            Self::Overdue => "overdue",
        }
    }

    /// Returns why the skill can't have started. None if it may have.
    pub(super) fn refusal(&self) -> Option<WorkerRefusal> {
        match self {
            Self::Unanswered(error) => error.refusal,
            Self::Answered(_) | Self::Overdue => None,
        }
    }

    /// Whether the skill may have had an effect.
    pub(crate) fn may_have_run(&self) -> bool {
        match self {
            Self::Answered(result) => result.success || !result.not_started,
            Self::Unanswered(_) | Self::Overdue => self.refusal().is_none(),
        }
    }

    /// By how much the call would miss its deadline, if the worker refused it for that reason.
    pub(super) fn late_by(&self) -> Option<Duration> {
        match self.refusal() {
            Some(WorkerRefusal::Late { by }) => Some(by),
            _ => None,
        }
    }

    /// Returns how the attempt counts for the worker.
    pub(super) fn verdict(&self, events: Option<&EventRelay>) -> Verdict {
        let refusal = self.refusal();
        match self {
            Self::Answered(result) => match &result.error {
                Some(error) if error.blame() == Blame::Worker => Verdict::Failure,
                _ => Verdict::Success,
            },
            _ if refusal.is_some_and(|it| it != WorkerRefusal::Unreachable) => Verdict::Ignored,
            // The client did not read, which blocked the worker.
            Self::Overdue if events.is_some_and(EventRelay::is_blocked) => Verdict::Ignored,
            Self::Unanswered(_) | Self::Overdue => Verdict::Failure,
        }
    }

    /// Corrects the blame for a timeout. A skill that was stopped before its granted time is not at fault: its
    /// caller gave it less time, or queues and earlier attempts used it up. `took` is the time since the attempt
    /// began.
    pub(super) fn excuse_skill(&mut self, context: &CallContext, took: Duration) {
        let Self::Answered(result) = self else { return };
        let ran = took.saturating_sub(Duration::from_micros(result.queued_us));
        let Some(error) = &mut result.error else { return };
        let timed_out = matches!(error.code(), ErrorCode::Timeout | ErrorCode::McpTimeout);
        if timed_out && error.blame() == Blame::Skill && ran < context.granted.mul_f64(FULL_TIME) {
            error.set_blame(context.blame_for_short_time());
        }
    }

    /// Builds the attempt's summary for traces.
    pub(super) fn summary(&self, number: u32, worker_id: String) -> AttemptSummary {
        let may_have_run = self.may_have_run();
        let summary = AttemptSummary { number, worker_id, may_have_run, ..AttemptSummary::default() };
        match self {
            Self::Answered(result) => AttemptSummary {
                runner: result.runner.clone(),
                // Even if the skill failed.
                status: "OK",
                failure: result.error.as_ref().map(|it| (it.code(), it.blame())),
                queued: Duration::from_micros(result.queued_us),
                ..summary
            },
            Self::Unanswered(error) => {
                let failure = match error.refusal {
                    Some(WorkerRefusal::Full | WorkerRefusal::Late { .. }) => (ErrorCode::Overloaded, Blame::Gateway),
                    _ => (ErrorCode::Unavailable, Blame::Worker),
                };
                AttemptSummary { status: error.status, failure: Some(failure), reason: error.reason.clone(), ..summary }
            }
            Self::Overdue => {
                let failure = Some((ErrorCode::Timeout, Blame::Worker));
                AttemptSummary { status: GrpcCode::DeadlineExceeded.name(), failure, ..summary }
            }
        }
    }

    /// Converts to the result for the caller, if this was the last attempt.
    pub(super) fn into_result(self, context: &CallContext, worker_id: String) -> ExecuteResult {
        let error = match self {
            Self::Answered(result) => return warn_of_version(result, &context.version),
            Self::Unanswered(CallError { refusal: Some(refusal), .. }) => match refusal {
                WorkerRefusal::Full => SkillError::overloaded("all workers are overloaded"),
                WorkerRefusal::Late { by } => too_many_wait(by),
                WorkerRefusal::Declined | WorkerRefusal::Unreachable => no_candidate(),
            },
            Self::Unanswered(_) => {
                let message = "the worker was lost while the skill may have been running";
                SkillError::new(ErrorCode::Unavailable, message)
            }
            Self::Overdue if context.events.as_ref().is_some_and(EventRelay::is_blocked) => {
                let message = "the deadline passed while the client did not read the call's events";
                SkillError::new(ErrorCode::Timeout, message).with_blame(Blame::Caller)
            }
            Self::Overdue => {
                let message = "the worker did not answer before the deadline";
                SkillError::new(ErrorCode::Timeout, message).with_blame(Blame::Worker)
            }
        };
        ExecuteResult { worker_id, error: Some(error), ..ExecuteResult::default() }
    }
}

/// Warns the caller if another version answered than `wanted`, which may be empty.
fn warn_of_version(mut result: ExecuteResult, wanted: &str) -> ExecuteResult {
    if !wanted.is_empty() && !result.version.is_empty() && result.version != wanted {
        let answered = &result.version;
        let message = format!(
            "the call went to version {wanted}, but {answered} answered: an older worker runs the only one that it has"
        );
        result.warnings.push(message);
    }
    result
}

/// Builds the error for a call that workers refused because of their queues. `late_by` is a worker's estimate of
/// the delay.
pub(super) fn too_many_wait(late_by: Duration) -> SkillError {
    let message =
        "too many calls wait at the workers, so this one would miss its deadline: retry later, or allow more time";
    let retry_after = late_by.clamp(RETRY_AFTER.0, RETRY_AFTER.1);
    SkillError::overloaded(message).with_retry_after_ms(retry_after.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_learns_that_another_version_answered() {
        let warnings = |wanted, answered: &str| {
            let result = ExecuteResult { version: answered.to_owned(), ..ExecuteResult::default() };
            warn_of_version(result, wanted).warnings.len()
        };
        let cases = [warnings("1.0", "2.0"), warnings("1.0", "1.0"), warnings("1.0", ""), warnings("", "2.0")];
        assert_eq!(cases, [1, 0, 0, 0]);
    }
}
