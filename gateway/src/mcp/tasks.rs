//! Calls that outlive their requests, as defined by MCP's tasks extension.
//!
//! A task belongs to its caller's principal and to the view in which it was called. All tasks are in memory. With a
//! file, a task is stored before its client learns its id, and again when it ends. If the process ends first, the
//! task counts as failed.
//!
//! - [`record`]: a stored task; [`store`]: the store, if there is a file

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
    tasks: HashMap<String, Task>,
    /// The estimated size of all tasks.
    bytes: usize,
    /// The tasks to remove from the store with the next write.
    forgotten: Vec<String>,
}

/// A task, as its owner sees it.
#[derive(Debug, Clone)]
pub(crate) struct Task {
    pub(crate) record: Arc<Record>,
    /// The progress message from its skill. Empty if the task has ended.
    pub(crate) message: String,
    /// The open questions from its skill, by the keys of the answers. Empty if the task has ended.
    pub(crate) questions: Vec<(String, InputRequired)>,
    /// Cancels its call. None once the task has ended.
    running: Option<CancellationToken>,
}

/// Why a call can't become a task.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TaskRefusal {
    /// No more tasks are allowed: too many run.
    #[error("too many tasks run: wait until some end")]
    Full,
    /// It can't be stored.
    #[error(transparent)]
    Store(#[from] StoreError),
}

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
                change.put.push((id.clone(), Arc::new(record.clone())));
            }
            state.keep(id, Task::new(record, None));
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
    pub(crate) async fn begin(&self, owner: &Owner, skill: GovernedSkill) -> Result<RunningTask, TaskRefusal> {
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
        self.lock().keep(id.clone(), Task::new(record.clone(), Some(cancelled.clone())));
        let running = RunningTask { tasks: self.clone(), id: id.clone(), cancelled };
        self.write(id, Arc::new(record)).await.inspect_err(|_| self.lock().forget(&running.id))?;
        Ok(running)
    }

    /// Estimates the size of a task of `owner` in the store, in bytes. None if the task does not exist, has
    /// expired, or `principal` may no longer call its skill.
    pub(crate) fn size(&self, owner: &Owner, principal: &Principal, id: &str) -> Option<usize> {
        let state = self.lock();
        let task = state.get(owner, id).filter(|it| principal.may_have(&it.record.skill))?;
        Some(task.record.size())
    }

    /// Returns a task of `owner`. None if it does not exist or has expired.
    pub(crate) fn get(&self, owner: &Owner, id: &str) -> Option<Task> {
        let mut task = self.lock().get(owner, id).cloned()?;
        if task.running.is_some() && task.record.end.is_some() {
            // Its end is not stored yet.
            Arc::make_mut(&mut task.record).end = None;
        }
        Some(task)
    }

    /// Cancels a task of `owner` if it is running. Returns false if the owner has no such task.
    pub(crate) fn cancel(&self, owner: &Owner, id: &str) -> bool {
        let state = self.lock();
        let task = state.get(owner, id);
        if let Some(running) = task.and_then(|it| it.running.as_ref()) {
            running.cancel();
        }
        task.is_some()
    }

    /// Removes a question that was answered.
    pub(crate) fn remove_question(&self, id: &str, key: &str) {
        self.change(id, |task| task.questions.retain(|(its, _)| its != key));
    }

    /// Writes a task, and removes the forgotten ones from the store.
    async fn write(&self, id: String, record: Arc<Record>) -> Result<(), StoreError> {
        let removed = std::mem::take(&mut self.lock().forgotten);
        let written = self.0.store.apply(StoreChange { put: vec![(id, record)], removed: removed.clone() }).await;
        if written.is_err() {
            self.lock().forgotten.extend(removed);
        }
        written
    }

    /// Changes a running task.
    fn change(&self, id: &str, change: impl FnOnce(&mut Task)) {
        if let Some(task) = self.lock().tasks.get_mut(id).filter(|it| it.running.is_some()) {
            change(task);
            Arc::make_mut(&mut task.record).updated_ms = now_ms();
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
        self.tasks.change(&self.id, |task| task.questions.push((key, question)));
    }

    /// Sets the progress message.
    pub(crate) fn say(&self, message: String) {
        self.tasks.change(&self.id, |task| task.message = message);
    }

    /// Stores how the call ended. Replaces a result that is too large with what `too_large` returns.
    pub(crate) async fn end(self, end: TaskOutcome, too_large: impl FnOnce() -> String) {
        let end = match end {
            TaskOutcome::Completed(json) if json.len() > MAX_RESULT_BYTES => TaskOutcome::Completed(too_large()),
            end => end,
        };
        let record = {
            let (mut state, now) = (self.tasks.lock(), now_ms());
            let Some(task) = state.tasks.get(&self.id) else { return };
            let record = Arc::new(Record { end: Some(end), updated_ms: now, ..Record::clone(&task.record) });
            state.shrink((&record.owner.principal, record.size()), now, &self.id);
            state.replace(&self.id, Arc::clone(&record));
            record
        };
        match self.tasks.write(self.id.clone(), record).await {
            Ok(()) => self.tasks.lock().tasks.get_mut(&self.id).into_iter().for_each(Task::stop),
            Err(error) => tracing::error!(%error, "a task's result can't be stored"),
        }
    }
}

impl Drop for RunningTask {
    fn drop(&mut self) {
        let mut state = self.tasks.lock();
        // The task did not end, possibly because its client left before it was stored, or its end is not stored.
        if let Some(task) = state.tasks.get_mut(&self.id).filter(|it| it.running.is_some()) {
            task.stop();
            let end = Some(TaskOutcome::Failed(interrupted_error()));
            let record = Record { end, ..Record::clone(&task.record) };
            state.replace(&self.id, Arc::new(record));
        }
    }
}

impl Task {
    pub(crate) fn new(record: Record, running: Option<CancellationToken>) -> Self {
        Self { record: Arc::new(record), message: String::new(), questions: Vec::new(), running }
    }

    /// Drops what only a running task has.
    fn stop(&mut self) {
        self.message.clear();
        self.questions.clear();
        self.running = None;
    }
}

impl State {
    /// Returns a task of `owner` that has not expired.
    fn get(&self, owner: &Owner, id: &str) -> Option<&Task> {
        self.tasks.get(id).filter(|it| it.record.owner == *owner && it.record.expires_ms() > now_ms())
    }

    fn keep(&mut self, id: String, task: Task) {
        self.bytes += task.record.size();
        self.tasks.insert(id, task);
    }

    fn replace(&mut self, id: &str, record: Arc<Record>) {
        if let Some(task) = self.tasks.get_mut(id) {
            self.bytes = self.bytes - task.record.size() + record.size();
            task.record = record;
        }
    }

    fn forget(&mut self, id: &str) {
        if let Some(task) = self.tasks.remove(id) {
            self.bytes -= task.record.size();
        }
    }

    /// Forgets a stored task, and removes it from the store with the next write.
    fn evict(&mut self, id: String) {
        self.forget(&id);
        self.forgotten.push(id);
    }

    /// Makes room for one more task of a principal. Fails if nothing can be evicted.
    fn make_room(&mut self, principal: &str, size: usize, now_ms: u64) -> Result<(), TaskRefusal> {
        self.shrink((principal, size), now_ms, "");
        let own = self.tasks.values().filter(|it| it.record.owner.principal == principal).count();
        if own >= MAX_TASKS_OF_ONE {
            let id = self.oldest(principal, "").ok_or(TaskRefusal::Full)?;
            self.evict(id);
        }
        if self.tasks.len() >= MAX_TASKS {
            let id = self.eviction_candidate((principal, 1), |_| 1, "").ok_or(TaskRefusal::Full)?;
            self.evict(id);
        }
        Ok(())
    }

    /// Forgets expired tasks, and evicts ended ones while all of them take too much space. `more` is a principal
    /// with the bytes that it needs.
    fn shrink(&mut self, more: (&str, usize), now_ms: u64, but: &str) {
        let over: Vec<_> =
            self.ended(but).filter(|(_, it)| it.expires_ms() <= now_ms).map(|(id, _)| id.clone()).collect();
        over.into_iter().for_each(|id| self.evict(id));
        while self.bytes + more.1 > MAX_BYTES {
            let Some(id) = self.eviction_candidate(more, Record::size, but) else { break };
            self.evict(id);
        }
    }

    /// Chooses the task to evict: the oldest ended task of the principal that has the most, among those with ended
    /// tasks. `more` is a principal with the weight that it is about to add.
    fn eviction_candidate(&self, more: (&str, usize), weigh: impl Fn(&Record) -> usize, but: &str) -> Option<String> {
        let able: HashSet<&str> = self.ended(but).map(|(_, it)| it.owner.principal.as_str()).collect();
        let kept = self.tasks.values().map(|it| (it.record.owner.principal.as_str(), weigh(&it.record))).chain([more]);
        let principal = heaviest(kept.filter(|(principal, _)| able.contains(principal)))?;
        self.oldest(principal, but)
    }

    /// Returns the oldest ended task of a principal.
    fn oldest(&self, principal: &str, but: &str) -> Option<String> {
        let own = self.ended(but).filter(|(_, it)| it.owner.principal == principal);
        own.min_by_key(|(_, it)| it.created_ms).map(|(id, _)| id.clone())
    }

    /// The ended tasks except `but`.
    fn ended(&self, but: &str) -> impl Iterator<Item = (&String, &Record)> {
        let records = self.tasks.iter().map(|(id, it)| (id, &*it.record));
        records.filter(move |(id, it)| it.end.is_some() && id.as_str() != but)
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
