//! How one attempt ended, and what that says about the worker and to the caller.

use std::time::Duration;

use openskill_proto::error::GrpcCode;
use openskill_proto::v1::{Blame, ErrorCode, ExecuteResult, SkillError};

use super::pick::NoCandidate;
use crate::call::events::EventRelay;
use crate::dispatch::context::CallContext;
use crate::observe::call_event::AttemptSummary;
use crate::workers::client::{CallError, Refusal};
use crate::workers::ejection::Verdict;

/// How much of its granted time a skill must have had for a timeout to be its own fault.
const FULL_TIME: f64 = 0.9;

/// The least and the most that a refused caller is told to wait.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// How one attempt ended.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "moved a few times a call, where a box would be an allocation each")]
pub(crate) enum AttemptEnd {
    /// The worker answered.
    Answered(ExecuteResult),
    /// The skill cannot have started: the call may go to another worker.
    NotStarted {
        /// For the log.
        reason: String,
        refusal: Refusal,
        /// The gRPC status that ended the request.
        status: &'static str,
    },
    /// The skill may have started.
    Lost {
        /// For the log.
        reason: String,
        /// The gRPC status that ended the request.
        status: &'static str,
    },
    /// The worker did not answer by the deadline, nor shortly after.
    Overdue,
}

impl AttemptEnd {
    /// The name in metrics.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Answered(_) => "answered",
            Self::NotStarted { .. } => "not_started",
            Self::Lost { .. } => "lost",
            Self::Overdue => "overdue",
        }
    }

    /// Whether the skill may have had an effect.
    pub(crate) fn may_have_run(&self) -> bool {
        match self {
            Self::Answered(result) => result.success || !result.not_started,
            Self::NotStarted { .. } => false,
            Self::Lost { .. } | Self::Overdue => true,
        }
    }

    /// By how much the worker expects the call to miss its deadline, if it refused it for that.
    pub(super) fn late_by(&self) -> Option<Duration> {
        match self {
            Self::NotStarted { refusal: Refusal::Late { by }, .. } => Some(*by),
            _ => None,
        }
    }

    /// What it says about the worker.
    pub(super) fn verdict(&self, events: Option<&EventRelay>) -> Verdict {
        match self {
            Self::Answered(result) if is_blamed_on(result, Blame::Worker) => Verdict::Failure,
            Self::Answered(_) => Verdict::Success,
            Self::NotStarted { refusal: Refusal::Full | Refusal::Late { .. } | Refusal::Declined, .. } => {
                Verdict::Ignored
            }
            // The client did not read, so the worker had to wait.
            Self::Overdue if events.is_some_and(EventRelay::is_blocked) => Verdict::Ignored,
            Self::NotStarted { .. } | Self::Lost { .. } | Self::Overdue => Verdict::Failure,
        }
    }

    /// Corrects the blame for a timeout. A skill that was stopped before it had its granted time is not at fault: its caller
    /// gave less, or queues and other workers used it up. `took` is the time since the attempt began.
    pub(super) fn excuse_skill(&mut self, context: &CallContext, took: Duration) {
        let Self::Answered(result) = self else { return };
        let ran = took.saturating_sub(Duration::from_micros(result.queued_us));
        let Some(error) = &mut result.error else { return };
        let timed_out = matches!(error.code(), ErrorCode::Timeout | ErrorCode::McpTimeout);
        if timed_out && error.blame() == Blame::Skill && ran < context.granted.mul_f64(FULL_TIME) {
            error.set_blame(context.blame_for_short_time());
        }
    }

    /// What there is to say about it in traces.
    pub(super) fn summary(&self, number: u32, worker_id: String) -> AttemptSummary {
        let (failure, reason) = match self {
            Self::Answered(result) => (result.error.as_ref().map(|it| (it.code(), it.blame())), ""),
            Self::NotStarted { refusal: Refusal::Full | Refusal::Late { .. }, reason, .. } => {
                (Some((ErrorCode::Overloaded, Blame::Gateway)), reason.as_str())
            }
            Self::NotStarted { reason, .. } | Self::Lost { reason, .. } => {
                (Some((ErrorCode::Unavailable, Blame::Worker)), reason.as_str())
            }
            Self::Overdue => (Some((ErrorCode::Timeout, Blame::Worker)), ""),
        };
        let (runner, queued) = match self {
            Self::Answered(result) => (result.runner.clone(), Duration::from_micros(result.queued_us)),
            _ => (String::new(), Duration::ZERO),
        };
        let (reason, may_have_run) = (reason.to_owned(), self.may_have_run());
        let status = self.status();
        AttemptSummary { number, worker_id, runner, status, failure, reason, may_have_run, queued }
    }

    /// How the request to the worker ended. A failure of the skill is an answer.
    fn status(&self) -> &'static str {
        match self {
            Self::Answered(_) => "OK",
            Self::NotStarted { status, .. } | Self::Lost { status, .. } => status,
            Self::Overdue => GrpcCode::DeadlineExceeded.name(),
        }
    }

    /// The result that the caller gets if this was the last attempt.
    pub(super) fn into_result(self, context: &CallContext, worker_id: String) -> ExecuteResult {
        let error = match self {
            Self::Answered(result) => return result,
            Self::NotStarted { refusal: Refusal::Full, .. } => SkillError::overloaded("all workers are overloaded"),
            Self::NotStarted { refusal: Refusal::Late { by }, .. } => too_many_wait(by),
            Self::NotStarted { .. } => NoCandidate.into(),
            Self::Lost { .. } => {
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

impl From<CallError> for AttemptEnd {
    fn from(error: CallError) -> Self {
        match error {
            CallError::NotStarted { reason, refusal, status } => Self::NotStarted { reason, refusal, status },
            CallError::Lost { reason, status } => Self::Lost { reason, status },
        }
    }
}

/// Calls that wait are in the way. By how much this one would be late is the worker's estimate.
pub(super) fn too_many_wait(late_by: Duration) -> SkillError {
    let message =
        "too many calls wait at the workers for this one to end before its deadline: retry later, or allow more time";
    let retry_after = late_by.clamp(RETRY_AFTER.0, RETRY_AFTER.1);
    SkillError::overloaded(message).with_retry_after_ms(retry_after.as_millis() as u64)
}

fn is_blamed_on(result: &ExecuteResult, blame: Blame) -> bool {
    result.error.as_ref().is_some_and(|error| error.blame() == blame)
}
