//! Calls that go on without a request: tasks, of the extension of that name.
//!
//! A task belongs to the principal whose call it is, at the view where it was called. It is stored before its client learns
//! its id, and again when it ends; while it runs, what its client may ask of it is here. One whose process ended before it did
//! has failed.
//!
//! - [`record`]: a task as it is stored; [`store`]: the store, on disk or in memory

pub(crate) mod record;
pub(crate) mod store;

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openskill_proto::timestamp::Timestamp;
use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::InputRequired;
use tokio_util::sync::CancellationToken;

use record::{End, Record};
use store::{Change, Store, StoreError};

use super::owner::Owner;
use super::shares::heaviest;
use crate::call::principal::{GovernedSkill, Principal};
use crate::state::limits::SharedLimit;

/// How many tasks are kept, of all principals and of one. The oldest that ended make room for new ones, of the principal who
/// has most.
const MAX_TASKS: usize = SharedLimit::Tasks.bound();
const MAX_TASKS_OF_ONE: usize = 1_000;

/// How much all tasks take in the store, in bytes, about.
const MAX_BYTES: usize = SharedLimit::TaskBytes.bound();

/// The largest result that is kept, in bytes.
const MAX_RESULT_BYTES: usize = 8 << 20;

/// When calls become tasks, and how long those are kept.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// After how long a call becomes a task, unless its skill says otherwise.
    pub(crate) after: Duration,
    /// How long a task is kept after it was created.
    pub(crate) ttl: Duration,
}

/// All tasks. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Tasks(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    times: Times,
    store: Store,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Those that this process runs.
    live: HashMap<String, Live>,
    /// Those that are stored.
    kept: HashMap<String, Kept>,
    bytes: usize,
    /// Those that are to be removed from the store, with the next task that is written.
    forgotten: Vec<String>,
}

/// What is known of a stored task without reading it.
#[derive(Debug)]
struct Kept {
    owner: Owner,
    skill: GovernedSkill,
    created_ms: u64,
    expires_ms: u64,
    size: usize,
    has_ended: bool,
}

/// A task that runs.
#[derive(Debug)]
struct Live {
    record: Record,
    /// What its skill says of its progress. May be empty.
    message: String,
    /// What its skill asks, by the keys of the answers.
    questions: Vec<(String, InputRequired)>,
    cancelled: CancellationToken,
}

/// A task as its owner sees it.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) record: Record,
    pub(crate) message: String,
    /// Open questions. None for one that has ended.
    pub(crate) questions: Vec<(String, InputRequired)>,
}

/// There is no room for another task.
#[derive(Debug)]
pub(crate) struct Full;

impl Tasks {
    /// Opens the store. `file`: none for tasks that end with the process.
    ///
    /// # Errors
    /// The store can't be used.
    pub(crate) fn open(file: Option<&Path>, times: Times) -> Result<Self, StoreError> {
        let store = Store::open(file)?;
        let (mut state, mut change, now) = (State::default(), Change::default(), now_ms());
        for (id, mut record) in store.all()? {
            if record.expires_ms() <= now {
                change.removed.push(id);
                continue;
            }
            if record.end.is_none() {
                (record.end, record.updated_ms) = (Some(End::Failed(interrupted())), now);
                change.put.push((id.clone(), record.clone()));
            }
            state.keep(id, &record);
        }
        store.write(&change)?;
        Ok(Self(Arc::new(Inner { times, store, state: Mutex::new(state) })))
    }

    pub(crate) fn times(&self) -> Times {
        self.0.times
    }

    /// Begins a task of `owner`, which runs `skill`. It is stored when this returns.
    ///
    /// # Errors
    /// There is no room, or the store failed.
    pub(crate) async fn begin(&self, owner: &Owner, skill: GovernedSkill) -> Result<Running, Full> {
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
            let live = Live {
                record: record.clone(),
                message: String::new(),
                questions: Vec::new(),
                cancelled: cancelled.clone(),
            };
            state.live.insert(id.clone(), live);
        }
        let running = Running { tasks: self.clone(), id: id.clone(), cancelled };
        match self.write(id, record).await {
            Ok(()) => Ok(running),
            Err(error) => {
                tracing::error!(%error, "a call can't become a task");
                self.lock().forget(&running.id);
                Err(Full)
            }
        }
    }

    /// What a task of `owner` takes in the store, in bytes, about. None: there is none, it has expired, or `principal` may no
    /// longer call its skill.
    pub(crate) fn size(&self, owner: &Owner, principal: &Principal, id: &str) -> Option<usize> {
        let (state, now) = (self.lock(), now_ms());
        let is_its = |it: &&Kept| it.owner == *owner && it.expires_ms > now && principal.may_have(&it.skill);
        state.kept.get(id).filter(is_its).map(|it| it.size)
    }

    /// A task of `owner`. None: there is none, or it has expired.
    ///
    /// # Errors
    /// The store failed.
    pub(crate) async fn get(&self, owner: &Owner, id: &str) -> Result<Option<Seen>, StoreError> {
        let now = now_ms();
        {
            let state = self.lock();
            let is_its = |it: &&Kept| it.owner == *owner && it.expires_ms > now;
            if state.kept.get(id).filter(is_its).is_none() {
                return Ok(None);
            }
            if let Some(live) = state.live.get(id) {
                let (record, message) = (live.record.clone(), live.message.clone());
                return Ok(Some(Seen { record, message, questions: live.questions.clone() }));
            }
        }
        let found = self.0.store.get(id).await?;
        Ok(found.map(|mut record| {
            // Its call was dropped before it ended: the gateway shuts down.
            record.end.get_or_insert_with(|| End::Failed(interrupted()));
            Seen { record, message: String::new(), questions: Vec::new() }
        }))
    }

    /// Whether there is a task of `owner`. If it runs, it is cancelled.
    pub(crate) fn cancel(&self, owner: &Owner, id: &str) -> bool {
        let (state, now) = (self.lock(), now_ms());
        let is_there = state.kept.get(id).is_some_and(|it| it.owner == *owner && it.expires_ms > now);
        if let Some(live) = state.live.get(id).filter(|_| is_there) {
            live.cancelled.cancel();
        }
        is_there
    }

    /// Its question of this key was answered.
    pub(crate) fn answered(&self, id: &str, key: &str) {
        self.change(id, |live| live.questions.retain(|(its, _)| its != key));
    }

    /// Writes a task, and removes from the store those that were forgotten.
    async fn write(&self, id: String, record: Record) -> Result<(), StoreError> {
        let removed = std::mem::take(&mut self.lock().forgotten);
        let written = self.0.store.apply(Change { put: vec![(id, record)], removed: removed.clone() }).await;
        if written.is_err() {
            self.lock().forgotten.extend(removed);
        }
        written
    }

    fn change(&self, id: &str, change: impl FnOnce(&mut Live)) {
        if let Some(live) = self.lock().live.get_mut(id) {
            change(live);
            live.record.updated_ms = now_ms();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task whose call runs. Dropping it leaves a task that has failed.
#[derive(Debug)]
pub(crate) struct Running {
    tasks: Tasks,
    id: String,
    cancelled: CancellationToken,
}

impl Running {
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Waits until its owner cancels it.
    pub(crate) async fn cancelled(&self) {
        self.cancelled.cancelled().await;
    }

    /// Its skill asks.
    pub(crate) fn ask(&self, key: String, question: InputRequired) {
        self.tasks.change(&self.id, |live| live.questions.push((key, question)));
    }

    /// Its skill says how far it is.
    pub(crate) fn say(&self, message: String) {
        self.tasks.change(&self.id, |live| live.message = message);
    }

    /// Its call has ended. A result that is too large is replaced by what `too_large` returns.
    pub(crate) async fn end(self, end: End, too_large: impl FnOnce() -> String) {
        let end = match end {
            End::Completed(json) if json.len() > MAX_RESULT_BYTES => End::Completed(too_large()),
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
            tracing::error!(%error, "the end of a task can't be stored");
        }
        self.tasks.lock().live.remove(&id);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let mut state = self.tasks.lock();
        // One that did not end, perhaps because its client was gone before it was stored, expires and is evicted like others.
        if state.live.remove(&self.id).is_some()
            && let Some(kept) = state.kept.get_mut(&self.id)
        {
            kept.has_ended = true;
        }
    }
}

impl State {
    fn keep(&mut self, id: String, record: &Record) {
        let kept = Kept {
            owner: record.owner.clone(),
            skill: record.skill.clone(),
            created_ms: record.created_ms,
            expires_ms: record.expires_ms(),
            size: record.size(),
            has_ended: record.end.is_some(),
        };
        self.bytes += kept.size;
        if let Some(before) = self.kept.insert(id, kept) {
            self.bytes -= before.size;
        }
    }

    fn forget(&mut self, id: &str) {
        self.live.remove(id);
        if let Some(kept) = self.kept.remove(id) {
            self.bytes -= kept.size;
        }
    }

    /// Forgets a task that is stored.
    fn give_up(&mut self, id: String) {
        self.forget(&id);
        self.forgotten.push(id);
    }

    /// Makes room for one more task of a principal.
    fn make_room(&mut self, principal: &str, size: usize, now_ms: u64) -> Result<(), Full> {
        self.shrink((principal, size), now_ms, "");
        let own = self.kept.values().filter(|it| it.owner.principal == principal).count();
        if own >= MAX_TASKS_OF_ONE {
            let id = self.oldest(principal, "").ok_or(Full)?;
            self.give_up(id);
        }
        if self.kept.len() >= MAX_TASKS {
            let id = self.dispensable((principal, 1), |_| 1, "").ok_or(Full)?;
            self.give_up(id);
        }
        Ok(())
    }

    /// Forgets tasks that have expired, and some that ended while all take too much. `more`: what a principal needs.
    fn shrink(&mut self, more: (&str, usize), now_ms: u64, but: &str) {
        let is_over = |(id, it): &(&String, &Kept)| it.expires_ms <= now_ms && it.has_ended && id.as_str() != but;
        let over: Vec<_> = self.kept.iter().filter(is_over).map(|(id, _)| id.clone()).collect();
        over.into_iter().for_each(|id| self.give_up(id));
        while self.bytes + more.1 > MAX_BYTES {
            let Some(id) = self.dispensable(more, |it| it.size, but) else { break };
            self.give_up(id);
        }
    }

    /// The task to evict: the oldest that has ended, of the principal who has most and any that ended. `more`: what a
    /// principal is about to have.
    fn dispensable(&self, more: (&str, usize), weigh: impl Fn(&Kept) -> usize, but: &str) -> Option<String> {
        let ended = self.kept.iter().filter(|(id, it)| it.has_ended && id.as_str() != but);
        let able: HashSet<&str> = ended.map(|(_, it)| it.owner.principal.as_str()).collect();
        let kept = self.kept.values().map(|it| (it.owner.principal.as_str(), weigh(it))).chain([more]);
        let principal = heaviest(kept.filter(|(principal, _)| able.contains(principal)))?;
        self.oldest(principal, but)
    }

    /// The oldest task of a principal that has ended.
    fn oldest(&self, principal: &str, but: &str) -> Option<String> {
        let is_its =
            |(id, it): &(&String, &Kept)| it.has_ended && it.owner.principal == principal && id.as_str() != but;
        self.kept.iter().filter(is_its).min_by_key(|(_, it)| it.created_ms).map(|(id, _)| id.clone())
    }
}

/// The error of a task that did not end.
fn interrupted() -> String {
    "{\"code\":-32603,\"message\":\"the gateway stopped while the task ran: call the tool again\"}".to_owned()
}

fn now_ms() -> u64 {
    Timestamp::now().0 / 1000
}

#[cfg(test)]
mod tests;
