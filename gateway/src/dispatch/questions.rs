//! Questions that skills ask during calls. Answers go to the worker whose skill is waiting.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use openskill_proto::v1::{DeliverInputRequest, ErrorCode, InputResponse, SkillError};
use parking_lot::Mutex;
use prost::Message as _;

use crate::call::claim::CallClaim;
use crate::call::principal::{GovernedSkill, Principal, REVOKED};
use crate::call::request::Call;
use crate::observe::call_event::CallEvent;
use crate::observe::call_record::CallRecord;
use crate::workers::worker::Worker;

/// The timeout for the worker to accept an answer.
const DELIVERY_TIMEOUT: Duration = Duration::from_secs(10);

/// The open questions of one gateway, at most sixteen per call in flight.
#[derive(Debug, Default, Clone)]
pub(crate) struct Questions(Arc<Mutex<HashMap<String, WaitingCall>>>);

/// A call that is waiting for an answer.
#[derive(Debug, Clone)]
pub(crate) struct WaitingCall {
    pub(crate) call: Arc<Call>,
    pub(crate) skill: GovernedSkill,
    pub(crate) worker: Arc<Worker>,
    /// Weak, because an answer in transit must not delay the record of a call that ended.
    pub(crate) record: Weak<CallRecord>,
}

/// A question that stays open until this is dropped.
#[derive(Debug)]
pub(crate) struct OpenQuestion {
    questions: Questions,
    request_id: String,
}

impl Questions {
    /// Registers a question until the returned guard is dropped.
    pub(crate) fn open(&self, request_id: &str, waiting: WaitingCall) -> OpenQuestion {
        self.0.lock().insert(request_id.to_owned(), waiting);
        OpenQuestion { questions: self.clone(), request_id: request_id.to_owned() }
    }

    /// Returns the calls that wait for answers. A call with several questions occurs several times.
    pub(crate) fn waiting_calls(&self) -> Vec<Arc<Call>> {
        self.0.lock().values().map(|it| Arc::clone(&it.call)).collect()
    }

    /// Whether a question belongs to an operation, whose answers are in the store.
    pub(crate) fn is_stored(&self, request_id: &str) -> bool {
        self.0.lock().get(request_id).is_some_and(|it| it.call.claim.as_ref().is_some_and(CallClaim::is_stored))
    }

    /// Whether a question of this gateway waits for an answer.
    pub(crate) fn is_open(&self, request_id: &str) -> bool {
        self.0.lock().contains_key(request_id)
    }

    fn get(&self, request_id: &str) -> Option<WaitingCall> {
        self.0.lock().get(request_id).cloned()
    }

    /// Delivers an answer to the skill that is waiting for it, over the connections of shard number `shard`.
    ///
    /// # Errors
    /// - `UNAUTHENTICATED`: the principal's credential has ended.
    /// - `NOT_FOUND`: no skill of this principal is waiting for it, or the policy does not allow the skill.
    /// - `INVALID_ARGUMENT`: it does not match the question's schema. The question stays open.
    pub(crate) async fn answer(
        &self,
        principal: &Principal,
        response: InputResponse,
        shard: usize,
    ) -> Result<(), SkillError> {
        if !principal.is_valid() {
            return Err(SkillError::new(ErrorCode::Unauthenticated, REVOKED));
        }
        let may_answer = |it: &WaitingCall| it.call.principal == *principal && principal.may_have(&it.skill);
        let waiting = self.get(&response.request_id).filter(may_answer);
        if waiting.is_none() {
            return Err(not_waiting());
        }
        self.deliver(response, shard).await
    }

    /// Delivers an answer whose sender may give it.
    ///
    /// # Errors
    /// As [`Self::answer`]. Any other error may pass.
    pub(crate) async fn deliver(&self, response: InputResponse, shard: usize) -> Result<(), SkillError> {
        let WaitingCall { call, worker, record, .. } = self.get(&response.request_id).ok_or_else(not_waiting)?;
        let answer = response.clone();
        let request = DeliverInputRequest { response: Some(response), principal: call.principal.name().to_owned() };
        let mut client = worker.client(shard);
        let delivered = tokio::time::timeout(DELIVERY_TIMEOUT, client.deliver_input(request)).await;
        delivered.unwrap_or_else(|_| Err(SkillError::unavailable("the worker did not accept the answer in time")))?;
        self.0.lock().remove(&answer.request_id);
        if let Some(record) = record.upgrade() {
            record.note_content(answer.encoded_len(), || CallEvent::Answered(answer));
        }
        Ok(())
    }
}

impl OpenQuestion {
    /// Whether it is still unanswered.
    pub(crate) fn is_open(&self) -> bool {
        self.questions.is_open(&self.request_id)
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        self.questions.0.lock().remove(&self.request_id);
    }
}

pub(crate) fn not_waiting() -> SkillError {
    let message = "no call waits for this answer: it was answered before, or its call has ended";
    SkillError::new(ErrorCode::NotFound, message)
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::InvokeRequest;

    use super::*;
    use crate::call::request::RequestContext;
    use crate::workers::source::Endpoint;

    #[tokio::test]
    async fn an_answer_finds_only_an_open_question_of_its_principal() {
        let (questions, worker) =
            (Questions::default(), Arc::new(Worker::new(Endpoint::Tcp("nobody:1".to_owned()), 1, None)));
        let response = || InputResponse { request_id: "q".to_owned(), ..InputResponse::default() };
        let principal = Principal::anonymous();
        let answer = async || questions.answer(&principal, response(), 0).await.unwrap_err().code();
        assert_eq!(answer().await, ErrorCode::NotFound);
        let request = InvokeRequest { skill_id: "asks".to_owned(), ..InvokeRequest::default() };
        let call = Arc::new(Call::new(request, RequestContext::unknown()));
        let record = CallRecord::begin(&Arc::default(), &call);
        let (skill, record) = (GovernedSkill::default(), Arc::downgrade(&record));
        let open = questions.open("q", WaitingCall { call, skill, worker, record });
        assert_eq!(answer().await, ErrorCode::Unavailable, "the worker can't be reached");
        drop(open);
        assert_eq!(answer().await, ErrorCode::NotFound);
    }
}
