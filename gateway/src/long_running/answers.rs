//! Answers to the questions of operations. Any gateway stores an answer, and the one that runs the operation delivers it.

use openskill_proto::trace::unhex;
use openskill_proto::v1::{ErrorCode, InputAction, InputKind, InputRequired, InputResponse, SkillError};
use openskill_skill::answer::validate;
use openskill_store::Store;
use openskill_store::engine::StoreError;
use openskill_store::questions::StoredQuestion;
use prost::Message as _;
use tokio::time::{Duration, Instant};

use super::{ID_BYTES, LongRunning, POLL, failure, is_owner};
use crate::call::principal::{Principal, REVOKED};
use crate::dispatch::questions::not_waiting;
use crate::gateway::Shard;

/// Within this time, a worker repeats the open questions of a run that is taken over.
const REPEAT_TIME: Duration = Duration::from_secs(5);

/// Delivers an answer to a call of this gateway, or stores it for the operation that asked, wherever that runs.
///
/// # Errors
/// - `UNAUTHENTICATED`: the principal's credential has ended.
/// - `NOT_FOUND`: no skill of this principal is waiting for it, or the policy does not allow the skill.
/// - `INVALID_ARGUMENT`: it does not match the question's schema. The question stays open.
/// - `UNAVAILABLE`: the worker or the store can't be reached.
pub(crate) async fn answer(shard: &Shard, principal: &Principal, response: InputResponse) -> Result<(), SkillError> {
    let questions = &shard.gateway.questions;
    if questions.is_open(&response.request_id) && !questions.is_stored(&response.request_id) {
        return questions.answer(principal, response, shard.number).await;
    }
    shard.gateway.long_running.answer(principal, response).await
}

impl LongRunning {
    async fn answer(&self, principal: &Principal, response: InputResponse) -> Result<(), SkillError> {
        if !principal.is_valid() {
            return Err(SkillError::new(ErrorCode::Unauthenticated, REVOKED));
        }
        let is_id = unhex::<ID_BYTES>(&response.request_id).is_some();
        let Some(store) = self.store.get().filter(|_| is_id) else { return Err(not_waiting()) };
        let found = store.find_question(&response.request_id).await.map_err(failure)?.ok_or_else(not_waiting)?;
        let operation = store.get(&found.operation_id).await.map_err(failure)?.map(|(operation, _)| operation);
        if !operation.is_some_and(|it| is_owner(principal, &it)) {
            return Err(not_waiting());
        }
        check(&found.question, &response).map_err(|reason| SkillError::new(ErrorCode::InvalidArgument, reason))?;
        if !store.answer(&response.request_id, &response.encode_to_vec()).await.map_err(failure)? {
            return Err(not_waiting());
        }
        self.notify(&found.operation_id);
        Ok(())
    }

    /// Returns the open questions of an operation that has not ended.
    pub(super) async fn open_questions(&self, store: &Store, id: &str) -> Result<Vec<InputRequired>, SkillError> {
        let questions = store.questions(id).await.map_err(failure)?;
        let open = questions.iter().filter(|it| it.answer.is_empty());
        Ok(open.filter_map(|it| InputRequired::decode(it.question.as_slice()).ok()).collect())
    }
}

/// Checks what can be checked without the skill. The worker checks the rest, and the question is open again if it refuses.
fn check(question: &[u8], response: &InputResponse) -> Result<(), String> {
    let Ok(question) = InputRequired::decode(question) else { return Ok(()) };
    if response.action() != InputAction::Accept {
        return Ok(());
    }
    let schema = (question.kind() == InputKind::Form).then(|| serde_json::from_str(&question.schema_json).ok());
    validate(&response.content_json, schema.flatten().as_ref())
}

/// Delivers the answers to an operation that runs here, until no question is left. `begun` is when its run began here.
pub(super) async fn deliver_until_answered(shard: &Shard, store: &Store, operation_id: &str, begun: Instant) {
    let own = &shard.gateway.long_running;
    loop {
        let changed = own.wait_for_change(operation_id);
        match deliver(shard, store, operation_id, begun.elapsed() > REPEAT_TIME).await {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => tracing::warn!(%error, operation = operation_id, "the store can't be asked for answers"),
        }
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep(POLL) => {}
        }
    }
}

/// Delivers the answers that are stored. Returns how many questions are left. Those that no skill asks any more are closed if
/// `is_settled`.
async fn deliver(shard: &Shard, store: &Store, operation_id: &str, is_settled: bool) -> Result<usize, StoreError> {
    let questions = &shard.gateway.questions;
    let mut left = 0;
    for StoredQuestion { request_id, answer, .. } in store.questions(operation_id).await? {
        if !questions.is_open(&request_id) {
            if is_settled {
                store.close_question(&request_id).await?;
            }
            left += usize::from(!is_settled);
            continue;
        }
        left += 1;
        if answer.is_empty() {
            continue;
        }
        let response = InputResponse::decode(answer.as_slice()).unwrap_or_default();
        let response = InputResponse { request_id: request_id.clone(), ..response };
        match questions.deliver(response, shard.number).await.map_err(|it| (it.code(), it.message)) {
            Ok(()) | Err((ErrorCode::NotFound, _)) => store.close_question(&request_id).await?,
            Err((ErrorCode::InvalidArgument, _)) => store.reopen_question(&request_id).await?,
            Err((_, error)) => tracing::warn!(error, operation = operation_id, "an answer can't be delivered yet"),
        }
    }
    Ok(left)
}
