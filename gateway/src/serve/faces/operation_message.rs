//! Operations as messages of `google.longrunning`.

use openskill_proto::longrunning::{ListOperationsResponse, Operation, operation};
use openskill_proto::render;
use openskill_proto::rpc::Status;
use openskill_proto::v1::{OperationMetadata, OperationState, SkillResult};
use openskill_store::operation::{Operation as StoredOperation, State};
use prost::Message;
use prost_types::{Any, Timestamp};

use crate::long_running::{OperationPage, OperationSnapshot};

/// Converts an operation with its result.
pub(super) fn operation(snapshot: OperationSnapshot) -> Operation {
    let OperationSnapshot { operation, result, questions, webhook } = snapshot;
    let metadata = OperationMetadata { questions, webhook, ..metadata(&operation) };
    Operation { result: result.map(outcome), ..message(&operation, &metadata) }
}

/// Renders an operation with its result as JSON, as REST returns it.
pub(crate) fn operation_json(snapshot: OperationSnapshot) -> String {
    render::operation(&operation(snapshot))
}

/// Converts a page of a list.
pub(super) fn page(page: &OperationPage) -> ListOperationsResponse {
    ListOperationsResponse {
        operations: page.operations.iter().map(without_result).collect(),
        next_page_token: page.next_page_token.clone(),
    }
}

fn without_result(stored: &StoredOperation) -> Operation {
    message(stored, &metadata(stored))
}

fn message(stored: &StoredOperation, metadata: &OperationMetadata) -> Operation {
    Operation {
        name: format!("operations/{}", stored.id),
        metadata: Some(any("OperationMetadata", metadata)),
        done: stored.state.is_done(),
        result: None,
    }
}

fn outcome(result: SkillResult) -> operation::Result {
    let packed = any("SkillResult", &result);
    match result.error {
        None => operation::Result::Response(packed),
        Some(error) => operation::Result::Error(Status {
            code: error.code().meaning().grpc as i32,
            message: error.message,
            details: vec![packed],
        }),
    }
}

fn metadata(stored: &StoredOperation) -> OperationMetadata {
    OperationMetadata {
        skill_id: stored.skill_id.clone(),
        session_id: stored.session_id.clone(),
        principal: stored.principal.clone(),
        trace_id: stored.trace_id.clone(),
        state: wire_state(stored.state).into(),
        create_time: Some(timestamp(stored.created_ms)),
        start_at: (stored.state == State::Scheduled).then(|| timestamp(stored.start_at_ms)),
        start_time: stored.started_ms.map(timestamp),
        end_time: stored.ended_ms.map(timestamp),
        expire_time: stored.remove_ms.map(timestamp),
        runs: u32::try_from(stored.runs).unwrap_or(u32::MAX),
        cancel_requested: stored.cancel_requested,
        reason: if stored.state.is_done() { String::new() } else { stored.reason.clone() },
        questions: Vec::new(),
        webhook: String::new(),
    }
}

fn wire_state(state: State) -> OperationState {
    match state {
        State::Scheduled => OperationState::Scheduled,
        State::Queued => OperationState::Queued,
        State::Running => OperationState::Running,
        State::Succeeded => OperationState::Succeeded,
        State::Failed => OperationState::Failed,
        State::Cancelled => OperationState::Cancelled,
    }
}

fn timestamp(ms: i64) -> Timestamp {
    Timestamp { seconds: ms.div_euclid(1000), nanos: (ms.rem_euclid(1000) * 1_000_000) as i32 }
}

fn any(name: &str, message: &impl Message) -> Any {
    Any { type_url: format!("type.googleapis.com/openskill.v1.{name}"), value: message.encode_to_vec() }
}
