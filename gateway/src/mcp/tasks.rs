//! Calls that outlive their requests, as defined by MCP's tasks extension.
//!
//! A task belongs to its caller's principal and to the view in which it was called. It is stored before its client
//! learns its id, and again when it ends. While it runs, its state is in memory. If the process ends first, the
//! task counts as failed.
//!
//! - [`record`]: a stored task; [`store`]: the store, on disk or in memory

pub(crate) mod record;
pub(crate) mod store;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::InputRequired;
use parking_lot::{Mutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use record::{Record, TaskOutcome};
use store::{Store, StoreChange, StoreError};

use super::owner::Owner;
use super::shares::heaviest;
use crate::call::principal::{GovernedSkill, Principal};
use crate::state::limits::SharedLimit;

/// The maximum number of tasks, in total and of one principal. The oldest ended tasks of the principal that has the
/// most are evicted first.
const MAX_TASKS: usize = SharedLimit::Tasks.bound();
const MAX_TASKS_OF_ONE: usize = 1_000;

/// The maximum estimated size of all tasks in the store, in bytes.
const MAX_BYTES: usize = SharedLimit::TaskBytes.bound();

/// The maximum size of a stored result, in bytes.
const MAX_RESULT_BYTES: usize = 8 << 20;

/// When calls become tasks, and how long tasks are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TaskTimes {
    /// How long a call runs before it becomes a task, unless its skill overrides this.
    pub(crate) after: Duration,
    /// How long a task is kept after its creation.
    pub(crate) ttl: Duration,
}

/// All tasks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tasks(Arc<SharedTasks>);

#[derive(Debug)]
struct SharedTasks {
    times: TaskTimes,
    store: Store,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The running tasks of this process.
    live: HashMap<String, LiveTask>,
    /// What is known about each task in the store.
    stored: HashMap<String, TaskSummary>,
    bytes: usize,
    /// The tasks to remove from the store with the next write.
    forgotten: Vec<String>,
}

/// What is kept in memory about a stored task.
#[derive(Debug)]
struct TaskSummary {
    owner: Owner,
    skill: GovernedSkill,
    created_ms: u64,
    expires_ms: u64,
    size: usize,
    has_ended: bool,
}

/// A running task.
#[derive(Debug)]
struct LiveTask {
    record: Record,
    /// The progress message from its skill. May be empty.
    message: String,
    /// The open questions from its skill, by the keys of the answers.
    questions: Vec<(String, InputRequired)>,
    cancelled: CancellationToken,
}

/// A task as its owner sees it.
#[derive(Debug)]
pub(crate) struct TaskSnapshot {
    pub(crate) record: Record,
    pub(crate) message: String,
    /// The open questions. Empty if the task has ended.
    pub(crate) questions: Vec<(String, InputRequired)>,
}

/// No more tasks are allowed, or the store failed.
#[derive(Debug)]
pub(crate) struct Full;

impl Tasks {
    /// Opens the store. Without a `file`, tasks are lost when the process ends.
    ///
    /// # Errors
    /// The store can't be used.
    pub(crate) fn open(file: Option<&Path>, times: TaskTimes) -> Result<Self, StoreError> {
        let store = Store::open(file)?;
        let (mut state, mut change, now) = (State::default(), StoreChange::default(), now_ms());
        for (id, mut record) in store.all()? {
            if record.expires_ms() <= now {
                change.removed.push(id);
                continue;
            }
            if record.end.is_none() {
                (record.end, record.updated_ms) = (Some(TaskOutcome::Failed(interrupted_error())), now);
                change.put.push((id.clone(), record.clone()));
            }
            state.keep(id, &record);
        }
        store.write(&change)?;
        Ok(Self(Arc::new(SharedTasks { times, store, state: Mutex::new(state) })))
    }

    pub(crate) fn times(&self) -> TaskTimes {
        self.0.times
    }

    /// Starts a task of `owner` that runs `skill`. The task is stored before this returns.
    ///
    /// # Errors
    /// No more tasks are allowed, or the store failed.
    pub(crate) async fn begin(&self, owner: &Owner, skill: GovernedSkill) -> Result<RunningTask, Full> {
        let (id, now) = (hex(&random_id::<16>()), now_ms());
        let record = Record {
            owner: owner.clone(),
            skill,
            created_ms: now,
            updated_ms: now,
            ttl_ms: u64::try_from(self.0.times.ttl.as_millis()).unwrap_or(u64::MAX),
            end: None,
        };
        self.lock().make_room(&owner.principal, record.size(), now)?;
        let cancelled = CancellationToken::new();
        {
            let mut state = self.lock();
            state.keep(id.clone(), &record);
            let live = LiveTask {
                record: record.clone(),
                message: String::new(),
                questions: Vec::new(),
                cancelled: cancelled.clone(),
            };
            state.live.insert(id.clone(), live);
        }
        let running = RunningTask { tasks: self.clone(), id: id.clone(), cancelled };
        match self.write(id, record).await {
            Ok(()) => Ok(running),
            Err(error) => {
                tracing::error!(%error, "a call can't become a task");
                self.lock().forget(&running.id);
                Err(Full)
            }
        }
    }

    /// Estimates the size of a task of `owner` in the store, in bytes. None if the task does not exist, has
    /// expired, or `principal` may no longer call its skill.
    pub(crate) fn size(&self, owner: &Owner, principal: &Principal, id: &str) -> Option<usize> {
        let (state, now) = (self.lock(), now_ms());
        let is_its = |it: &&TaskSummary| it.owner == *owner && it.expires_ms > now && principal.may_have(&it.skill);
        state.stored.get(id).filter(is_its).map(|it| it.size)
    }

    /// Returns a task of `owner`. None if it does not exist or has expired.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn get(&self, owner: &Owner, id: &str) -> Result<Option<TaskSnapshot>, StoreError> {
        let now = now_ms();
        {
            let state = self.lock();
            let is_its = |it: &&TaskSummary| it.owner == *owner && it.expires_ms > now;
            if state.stored.get(id).filter(is_its).is_none() {
                return Ok(None);
            }
            if let Some(live) = state.live.get(id) {
                let (record, message) = (live.record.clone(), live.message.clone());
                return Ok(Some(TaskSnapshot { record, message, questions: live.questions.clone() }));
            }
        }
        let found = self.0.store.get(id).await?;
        Ok(found.map(|mut record| {
            // Its call was dropped before it ended, because the gateway is shutting down.
            record.end.get_or_insert_with(|| TaskOutcome::Failed(interrupted_error()));
            TaskSnapshot { record, message: String::new(), questions: Vec::new() }
        }))
    }

    /// Cancels a task of `owner` if it is running. Returns false if the owner has no such task.
    pub(crate) fn cancel(&self, owner: &Owner, id: &str) -> bool {
        let (state, now) = (self.lock(), now_ms());
        let is_there = state.stored.get(id).is_some_and(|it| it.owner == *owner && it.expires_ms > now);
        if let Some(live) = state.live.get(id).filter(|_| is_there) {
            live.cancelled.cancel();
        }
        is_there
    }

    /// Removes a question that was answered.
    pub(crate) fn remove_question(&self, id: &str, key: &str) {
        self.change(id, |live| live.questions.retain(|(its, _)| its != key));
    }

    /// Writes a task, and removes the forgotten ones from the store.
    async fn write(&self, id: String, record: Record) -> Result<(), StoreError> {
        let removed = std::mem::take(&mut self.lock().forgotten);
        let written = self.0.store.apply(StoreChange { put: vec![(id, record)], removed: removed.clone() }).await;
        if written.is_err() {
            self.lock().forgotten.extend(removed);
        }
        written
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut LiveTask)) {
        if let Some(live) = self.lock().live.get_mut(id) {
            change(live);
            live.record.updated_ms = now_ms();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock()
    }
}

/// A task whose call is running. Dropping it makes the task fail.
#[derive(Debug)]
pub(crate) struct RunningTask {
    tasks: Tasks,
    id: String,
    cancelled: CancellationToken,
}

impl RunningTask {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Waits until its owner cancels it.
    pub(crate) async fn wait_until_cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Adds a question from its skill.
    pub(crate) fn ask(&self, key: String, question: InputRequired) {
        self.tasks.change(&self.id, |live| live.questions.push((key, question)));
    }

    /// Sets the progress message.
    pub(crate) fn say(&self, message: String) {
        self.tasks.change(&self.id, |live| live.message = message);
    }

    /// Stores how the call ended. Replaces a result that is too large with what `too_large` returns.
    pub(crate) async fn end(self, end: TaskOutcome, too_large: impl FnOnce() -> String) {
        let end = match end {
            TaskOutcome::Completed(json) if json.len() > MAX_RESULT_BYTES => TaskOutcome::Completed(too_large()),
            end => end,
        };
        let (record, id) = {
            let (mut state, now) = (self.tasks.lock(), now_ms());
            let Some(live) = state.live.get(&self.id) else { return };
            let record = Record { end: Some(end), updated_ms: now, ..live.record.clone() };
            state.shrink((&record.owner.principal, record.size()), now, &self.id);
            state.keep(self.id.clone(), &record);
            (record, self.id.clone())
        };
        if let Err(error) = self.tasks.write(id.clone(), record).await {
            tracing::error!(%error, "a task's result can't be stored");
        }
        self.tasks.lock().live.remove(&id);
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        let mut state = self.tasks.lock();
        // A task that did not end, possibly because its client left before it was stored, expires and is evicted
        // like others.
        if state.live.remove(&self.id).is_some()
            && let Some(kept) = state.stored.get_mut(&self.id)
        {
            kept.has_ended = true;
        }
    }
}

impl State {
    fn keep(&mut self, id: String, record: &Record) {
        let kept = TaskSummary {
            owner: record.owner.clone(),
            skill: record.skill.clone(),
            created_ms: record.created_ms,
            expires_ms: record.expires_ms(),
            size: record.size(),
            has_ended: record.end.is_some(),
        };
        self.bytes += kept.size;
        if let Some(before) = self.stored.insert(id, kept) {
            self.bytes -= before.size;
        }
    }

    fn forget(&mut self, id: &str) {
        self.live.remove(id);
        if let Some(kept) = self.stored.remove(id) {
            self.bytes -= kept.size;
        }
    }

    /// Forgets a stored task, and removes it from the store with the next write.
    fn evict(&mut self, id: String) {
        self.forget(&id);
        self.forgotten.push(id);
    }

    /// Makes room for one more task of a principal. Fails if nothing can be evicted.
    fn make_room(&mut self, principal: &str, size: usize, now_ms: u64) -> Result<(), Full> {
        self.shrink((principal, size), now_ms, "");
        let own = self.stored.values().filter(|it| it.owner.principal == principal).count();
        if own >= MAX_TASKS_OF_ONE {
            let id = self.oldest(principal, "").ok_or(Full)?;
            self.evict(id);
        }
        if self.stored.len() >= MAX_TASKS {
            let id = self.eviction_candidate((principal, 1), |_| 1, "").ok_or(Full)?;
            self.evict(id);
        }
        Ok(())
    }

    /// Forgets expired tasks, and evicts ended ones while all of them take too much space. `more` is a principal
    /// with the bytes that it needs.
    fn shrink(&mut self, more: (&str, usize), now_ms: u64, but: &str) {
        let is_over =
            |(id, it): &(&String, &TaskSummary)| it.expires_ms <= now_ms && it.has_ended && id.as_str() != but;
        let over: Vec<_> = self.stored.iter().filter(is_over).map(|(id, _)| id.clone()).collect();
        over.into_iter().for_each(|id| self.evict(id));
        while self.bytes + more.1 > MAX_BYTES {
            let Some(id) = self.eviction_candidate(more, |it| it.size, but) else { break };
            self.evict(id);
        }
    }

    /// Chooses the task to evict: the oldest ended task of the principal that has the most, among those with ended
    /// tasks. `more` is a principal with the weight that it is about to add.
    fn eviction_candidate(
        &self,
        more: (&str, usize),
        weigh: impl Fn(&TaskSummary) -> usize,
        but: &str,
    ) -> Option<String> {
        let ended = self.stored.iter().filter(|(id, it)| it.has_ended && id.as_str() != but);
        let able: HashSet<&str> = ended.map(|(_, it)| it.owner.principal.as_str()).collect();
        let kept = self.stored.values().map(|it| (it.owner.principal.as_str(), weigh(it))).chain([more]);
        let principal = heaviest(kept.filter(|(principal, _)| able.contains(principal)))?;
        self.oldest(principal, but)
    }

    /// Returns the oldest ended task of a principal.
    fn oldest(&self, principal: &str, but: &str) -> Option<String> {
        let is_its =
            |(id, it): &(&String, &TaskSummary)| it.has_ended && it.owner.principal == principal && id.as_str() != but;
        self.stored.iter().filter(is_its).min_by_key(|(_, it)| it.created_ms).map(|(id, _)| id.clone())
    }
}

/// Returns the error of a task whose call was interrupted.
fn interrupted_error() -> String {
    "{\"code\":-32603,\"message\":\"the gateway stopped while the task ran: call the tool again\"}".to_owned()
}

fn now_ms() -> u64 {
    Timestamp::now().0 / 1000
}

#[cfg(test)]
mod tests;
