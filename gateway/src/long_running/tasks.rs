//! Tasks of MCP clients: calls that become operations while they run.
//!
//! A call that may become one has a claim from its start, so that its worker keeps the run when the gateway is lost.

use std::sync::Arc;

use futures_util::stream::BoxStream;
use openskill_proto::v1::invoke_event::Event;
use openskill_proto::v1::{InputRequired, InvokeEvent, InvokeRequest, Skill, SkillError, SkillResult, invoke_request};
use openskill_store::Store;
use openskill_store::operation::{Claim, NewOperation, Operation as StoredOperation};
use openskill_store::tasks::{RunningTask, TaskRetention};
use prost::Message as _;

use super::event_log::follow;
use super::executor::LEASE_MS;
use super::run::{HeldClaim, complete};
use super::stored_call::StoredCall;
use super::submit::DAY_MS;
use super::{LongRunning, failure, is_owner, stored_result, unknown_operation};
use crate::call::claim::CallClaim;
use crate::call::principal::Principal;
use crate::call::request::Call;
use crate::gateway::Shard;
use crate::state::limits::SharedLimit;

/// The maximum number of tasks of a principal that run, and of those that have ended.
const MAX_TASKS: usize = 1000;

/// The maximum size of the results of a principal's tasks, in bytes.
const MAX_BYTES: usize = SharedLimit::TaskBytes.bound() / 2;

/// How many of the last events are searched for progress.
const LAST_EVENTS: i64 = 20;

/// A task, as its owner sees it.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) operation: StoredOperation,
    /// None while it runs.
    pub(crate) result: Option<SkillResult>,
    /// The open questions, each with the key of its answer. Keys never repeat.
    pub(crate) questions: Vec<(String, InputRequired)>,
    /// The last progress message of its skill.
    pub(crate) message: String,
}

/// A call that has become an operation, and runs here.
pub(crate) struct AdoptedCall {
    pub(crate) operation: StoredOperation,
    store: Store,
    claim: Claim,
    call: Arc<Call>,
    held: HeldClaim,
}

impl LongRunning {
    /// Whether calls can become tasks.
    pub(crate) fn has_tasks(&self) -> bool {
        self.store.get().is_some()
    }

    /// Makes a running call an operation, in the view where it was called. It has a [reserved claim](CallClaim::reserve).
    ///
    /// # Errors
    /// Too many tasks of its principal run, or the store failed. Nothing changed.
    pub(crate) async fn adopt(
        self: &Arc<Self>,
        call: &Arc<Call>,
        skill: &Skill,
        view: &str,
    ) -> Result<AdoptedCall, SkillError> {
        let (store, claim) = (self.store()?, call.claim.as_ref().ok_or_else(unknown_operation)?);
        let new = new_operation(call, claim, skill, store.now_ms());
        self.make_room_for_tasks(store, &new.principal).await?;
        let held = HeldClaim::new(Arc::clone(self), &new.id, 1);
        let view = stored_view(view);
        let task = RunningTask { operation: &new, view: &view, gateway: &self.gateway, lease_ms: LEASE_MS };
        let Some(operation) = store.adopt(&task, MAX_TASKS).await.map_err(failure)? else {
            return Err(SkillError::overloaded("too many tasks run: wait until some end"));
        };
        claim.store();
        self.running.lock().insert(new.id.clone(), Arc::clone(call));
        let (epoch, request) = (1, new.request);
        let claim = Claim { operation: operation.clone(), request, epoch, may_have_run: false, last_event: 0 };
        Ok(AdoptedCall { operation, store: store.clone(), claim, call: Arc::clone(call), held })
    }

    /// Removes the oldest tasks that have ended, if there are too many.
    async fn make_room_for_tasks(&self, store: &Store, principal: &str) -> Result<(), SkillError> {
        let own = TaskRetention { principal, count: MAX_TASKS, bytes: MAX_BYTES };
        store.evict_tasks(own).await.map_err(failure)?;
        if self.config.store.is_none() {
            // They are in memory.
            let (count, bytes) = (SharedLimit::Tasks.bound(), SharedLimit::TaskBytes.bound());
            store.evict_tasks(TaskRetention { principal: "", count, bytes }).await.map_err(failure)?;
        }
        Ok(())
    }

    /// Returns a task.
    ///
    /// # Errors
    /// The principal has no such task in this view, or may no longer call its skill, or the store failed.
    pub(crate) async fn task(&self, principal: &Principal, view: &str, id: &str) -> Result<Task, SkillError> {
        let (operation, stored) = self.find_task(principal, view, id).await?;
        let store = self.store()?;
        if operation.state.is_done() {
            let result = Some(stored_result::load(store, stored).await.map_err(failure)?);
            return Ok(Task { operation, result, questions: Vec::new(), message: String::new() });
        }
        let asked = store.questions(&operation.id).await.map_err(failure)?.into_iter();
        let questions = asked.filter(|it| it.answer.is_empty()).filter_map(|it| {
            let question = InputRequired::decode(it.question.as_slice()).ok()?;
            let key = if question.key.is_empty() { "question" } else { &question.key };
            Some((format!("{key}-{}", it.number), question))
        });
        let questions = questions.collect();
        let events = store.last_events(&operation.id, LAST_EVENTS).await.map_err(failure)?;
        let message = events.into_iter().find_map(|it| progress(&it.event)).unwrap_or_default();
        Ok(Task { operation, result: None, questions, message })
    }

    /// Cancels a task. Has no effect on one that has ended.
    ///
    /// # Errors
    /// As [`Self::task`].
    pub(crate) async fn cancel_task(&self, principal: &Principal, view: &str, id: &str) -> Result<(), SkillError> {
        let (operation, _) = self.find_task(principal, view, id).await?;
        self.cancel(principal, &operation.id).await
    }

    async fn find_task(
        &self,
        principal: &Principal,
        view: &str,
        id: &str,
    ) -> Result<(StoredOperation, Vec<u8>), SkillError> {
        let (operation, result) = self.find(principal, id).await?;
        let is_its = is_owner(principal, &operation) && operation.task_view == stored_view(view);
        if is_its { Ok((operation, result)) } else { Err(unknown_operation()) }
    }
}

impl AdoptedCall {
    /// Stores the remaining events of the call, and its result. Dropping the future cancels the call.
    pub(crate) async fn run(self, shard: Shard, events: BoxStream<'static, Result<InvokeEvent, SkillError>>) {
        let Self { store, claim, call, held, .. } = self;
        let result = follow(&shard, &store, &claim, &call, events).await;
        complete(&shard, &store, &claim, result).await;
        drop(held);
        shard.gateway.long_running.notify(&claim.operation.id);
    }
}

fn new_operation(call: &Call, claim: &CallClaim, skill: &Skill, now: i64) -> NewOperation {
    NewOperation {
        id: claim.run.operation_id.clone(),
        principal: call.principal.name().to_owned(),
        credential: call.principal.credential().to_owned(),
        skill_id: call.skill_id.clone(),
        toolset: skill.toolset.clone(),
        destructive: skill.destructive,
        session_id: call.session_id.clone(),
        trace_id: call.trace.id.clone(),
        idempotency_key: None,
        fingerprint: Vec::new(),
        request: StoredCall::task(request(call), &call.trace, skill.idempotent).encode_to_vec(),
        start_at_ms: now,
        start_before_ms: now + DAY_MS,
        webhook: None,
    }
}

/// The request with which another gateway continues or repeats the call.
fn request(call: &Call) -> InvokeRequest {
    InvokeRequest {
        skill_id: call.skill_id.clone(),
        arguments: Some(invoke_request::Arguments::InputJson(call.input.text().to_owned())),
        call_id: call.call_id.clone(),
        session_id: call.session_id.clone(),
        interactive: call.interactive,
        answers: call.answers.clone(),
        secret_values: call.secret_values.clone(),
        ..InvokeRequest::default()
    }
}

/// Where the tasks of a view are, in the store.
fn stored_view(view: &str) -> String {
    format!("/{view}")
}

fn progress(event: &[u8]) -> Option<String> {
    match InvokeEvent::decode(event).ok()?.event? {
        Event::Progress(it) if !it.message.is_empty() => Some(it.message),
        _ => None,
    }
}
