//! How operations end.

use std::time::Duration;

use openskill_proto::v1::{Blame, ErrorCode, SkillError, SkillResult};
use openskill_store::operation::{End, Operation as StoredOperation, State};
use prost::Message as _;

/// How an operation that waits ends if it is cancelled.
pub(super) fn cancellation(operation: &StoredOperation, may_have_run: bool, keep: Duration) -> End {
    end(&failure_result(operation, SkillError { may_have_run, ..cancelled_error() }), keep)
}

pub(super) fn end(result: &SkillResult, keep: Duration) -> End {
    let state = match result.error.as_ref().map(SkillError::code) {
        None => State::Succeeded,
        Some(ErrorCode::Cancelled) => State::Cancelled,
        Some(_) => State::Failed,
    };
    let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX / 2);
    End { state, result: result.encode_to_vec(), blobs: Vec::new(), keep_ms }
}

/// The label of a final state in metrics.
pub(super) fn state_name(state: State) -> &'static str {
    match state {
        State::Succeeded => "succeeded",
        State::Cancelled => "cancelled",
        _ => "failed",
    }
}

/// The result of an operation that ends without a run.
pub(super) fn failure_result(operation: &StoredOperation, error: SkillError) -> SkillResult {
    SkillResult {
        skill_id: operation.skill_id.clone(),
        trace_id: operation.trace_id.clone(),
        text: error.message.clone(),
        error: Some(error),
        ..SkillResult::default()
    }
}

pub(super) fn cancelled_error() -> SkillError {
    SkillError::new(ErrorCode::Cancelled, "the operation was cancelled")
}

pub(super) fn too_late_error() -> SkillError {
    SkillError::new(ErrorCode::Timeout, "the operation could not start in time: start_before has passed")
}

pub(super) fn lost_error() -> SkillError {
    let message = "the gateway or the worker was lost while the skill ran, so it may have run: check its effect before you \
                   submit it again";
    let error = SkillError::new(ErrorCode::Unavailable, message).with_blame(Blame::Gateway);
    SkillError { may_have_run: true, retryable: false, retry_after_ms: 0, ..error }
}

pub(super) fn unreadable_error() -> SkillError {
    let message = "the operation can't be read: another version of openskill may have stored it";
    SkillError::new(ErrorCode::Internal, message).with_blame(Blame::Gateway)
}

/// Reads a stored result.
pub(super) fn read_result(bytes: &[u8]) -> SkillResult {
    SkillResult::decode(bytes)
        .unwrap_or_else(|_| SkillResult { error: Some(unreadable_error()), ..SkillResult::default() })
}
