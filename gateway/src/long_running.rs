//! Calls that outlive their callers and this gateway, as `google.longrunning` operations.
//!
//! ```text
//! Submit -> submit (checks, stores) -> Store -> executor (claims what is next, renews leases)
//!                                        ^         └-> run (records the start, invokes, stores events and result)
//! Get, List, Wait, Watch, Cancel, Delete ┘              -> invoke: the path of any other call
//! ```
//!
//! Whatever a client learns about an operation is in the store, so any gateway with the same store can answer. Memory only
//! has hints: which operations run here, and whom to wake.
//!
//! - [`submit`]: stores a call; [`stored_call`]: in this form
//! - [`answers`]: the answers to their questions
//! - [`executor`]: runs what is stored; [`run`]: one operation; [`event_log`]: stores its events; [`resume`]: one that was begun elsewhere; [`end`]: how it
//!   ends
//! - [`tasks`]: calls of MCP clients that become operations
//! - [`stored_result`]: a result in this form; [`detachment`]: makes its large parts blobs; [`artifacts`]: reads them;
//!   [`retention`]: how much is kept
//! - [`filter`]: parses list filters; [`watch`]: streams events; [`config`]: settings
//! - [`keys`]: the upkeep of idempotency keys in the same store
//! - [`webhooks`]: tells servers of ends

pub(crate) mod answers;
pub(crate) mod artifacts;
pub(crate) mod config;
mod detachment;
mod end;
mod event_log;
pub(crate) mod executor;
mod filter;
pub(crate) mod keys;
mod resume;
mod retention;
mod run;
mod stored_call;
mod stored_result;
mod submit;
pub(crate) mod tasks;
pub(crate) mod watch;
pub(crate) mod webhooks;

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use openskill_proto::longrunning::ListOperationsRequest;
use openskill_proto::trace::{hex, random_id, unhex};
use openskill_proto::v1::{Blame, ErrorCode, InputRequired, SkillError, SkillResult};
use openskill_store::engine::StoreError;
use openskill_store::operation::{Operation as StoredOperation, OperationFilter, State};
use openskill_store::page::Position;
use openskill_store::{Location, Store};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::call::principal::Principal;
use crate::call::request::Call;
use crate::observe::metrics::OperationGauges;
use config::OperationsConfig;
use retention::Retention;

/// How long workers keep the run of an operation whose gateway is gone, and a margin.
const KEPT: Duration = Duration::from_secs(35);

/// The length of an id, of which each byte is two digits.
const ID_BYTES: usize = 16;

/// How often a change is looked for that another gateway made.
const POLL: Duration = Duration::from_millis(500);

/// How long `WaitOperation` waits without a timeout, and at most.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// The number of operations on a page by default, and at most.
const PAGE: (usize, usize) = (50, 1000);

/// The number of cancelled operations that the executor has not looked after yet.
const MAX_CANCELLED: usize = 1000;

/// The number of groups of operations whose watchers wake together.
const CHANGE_GROUPS: usize = 64;

/// The state of an operation, and its result if it has ended.
#[derive(Debug)]
pub(crate) struct OperationSnapshot {
    pub(crate) operation: StoredOperation,
    pub(crate) result: Option<SkillResult>,
    /// What its skill asks and nobody has answered.
    pub(crate) questions: Vec<InputRequired>,
    /// What became of its webhook, in words. Empty if it has none.
    pub(crate) webhook: String,
}

/// A page of a list.
#[derive(Debug)]
pub(crate) struct OperationPage {
    /// The operations, the newest first.
    pub(crate) operations: Vec<StoredOperation>,
    /// Empty on the last page.
    pub(crate) next_page_token: String,
}

/// The operations of this gateway's store.
pub(crate) struct LongRunning {
    config: OperationsConfig,
    /// Identifies this process in leases.
    gateway: String,
    /// None until the store is open.
    store: OnceLock<Store>,
    /// Why the store is not open.
    reason: Mutex<String>,
    /// The operations that this gateway has claimed and not given back, with their epochs.
    claimed: Mutex<HashSet<(String, i64)>>,
    /// The calls of those that run, by id.
    running: Mutex<HashMap<String, Arc<Call>>>,
    /// Since when renewals of leases succeed. None after one that failed.
    renewing_since: Mutex<Option<Instant>>,
    /// When a worker that may have a run did first not answer, by operation.
    unsure_since: Mutex<HashMap<String, Instant>>,
    /// Operations that were cancelled while they waited for another run. A worker may still have an earlier one.
    cancelled: Mutex<Vec<String>>,
    /// The number of operations that wait, by principal. Refreshed from the store.
    waiting: Mutex<HashMap<String, usize>>,
    /// When the oldest of them was stored, in milliseconds of the store's time.
    oldest_ms: AtomicI64,
    retention: Retention,
    /// Wakes the executor.
    submitted: Notify,
    /// Wake watchers. An operation belongs to the group of its hash.
    changes: [Notify; CHANGE_GROUPS],
    hasher: RandomState,
    /// Cancelled when the gateway stops accepting requests.
    shutdown: CancellationToken,
}

impl LongRunning {
    pub(crate) fn new(config: OperationsConfig, shutdown: CancellationToken) -> Self {
        Self {
            retention: Retention::new(config.keep_bytes),
            config,
            gateway: hex(&random_id::<8>()),
            store: OnceLock::new(),
            reason: Mutex::new("it is not open yet".to_owned()),
            claimed: Mutex::default(),
            running: Mutex::default(),
            renewing_since: Mutex::default(),
            unsure_since: Mutex::default(),
            cancelled: Mutex::default(),
            waiting: Mutex::default(),
            oldest_ms: AtomicI64::new(i64::MAX),
            submitted: Notify::new(),
            changes: std::array::from_fn(|_| Notify::new()),
            hasher: RandomState::new(),
            shutdown,
        }
    }

    /// Returns the latest state of an operation.
    ///
    /// # Errors
    /// It does not exist for this principal, or the store failed.
    pub(crate) async fn get(&self, principal: &Principal, name: &str) -> Result<OperationSnapshot, SkillError> {
        let (operation, stored) = self.find(principal, name).await?;
        self.snapshot(operation, stored).await
    }

    async fn snapshot(&self, operation: StoredOperation, stored: Vec<u8>) -> Result<OperationSnapshot, SkillError> {
        let store = self.store()?;
        let is_done = operation.state.is_done();
        let result = if is_done { Some(stored_result::load(store, stored).await.map_err(failure)?) } else { None };
        let questions = match operation.state {
            State::Queued | State::Running => self.open_questions(store, &operation.id).await?,
            _ => Vec::new(),
        };
        let delivery = store.delivery(&operation.id).await.map_err(failure)?;
        let webhook = delivery.as_ref().map(webhooks::describe).unwrap_or_default();
        Ok(OperationSnapshot { operation, result, questions, webhook })
    }

    /// Lists operations of a principal, or of all for an administrator.
    ///
    /// # Errors
    /// The filter or the page token is invalid, no store is configured, or it failed.
    pub(crate) async fn list(
        &self,
        principal: &Principal,
        request: &ListOperationsRequest,
    ) -> Result<OperationPage, SkillError> {
        let invalid = |message: String| SkillError::new(ErrorCode::InvalidArgument, message);
        let own = (!principal.is_admin()).then(|| principal.name().to_owned());
        let filter = OperationFilter { principal: own, ..filter::parse(&request.filter).map_err(invalid)? };
        let after = Position::parse(&request.page_token, &filter).map_err(|error| invalid(error.to_string()))?;
        let size = match usize::try_from(request.page_size) {
            Err(_) => return Err(invalid("page_size must not be negative".to_owned())),
            Ok(0) => PAGE.0,
            Ok(size) => size.min(PAGE.1),
        };
        let mut listed = self.configured_store()?.list(&filter, &after, size + 1).await.map_err(failure)?;
        let has_more = listed.len() > size;
        listed.truncate(size);
        let last = listed.last().filter(|_| has_more);
        let token = last.map(|it| Position { created_ms: it.created_ms, id: it.id.clone() }.token(&filter));
        listed.retain(|it| may_see(principal, it));
        Ok(OperationPage { operations: listed, next_page_token: token.unwrap_or_default() })
    }

    /// Waits until an operation is done, or `timeout` has passed, and returns its state.
    ///
    /// # Errors
    /// It does not exist for this principal, or the store failed.
    pub(crate) async fn wait(
        &self,
        principal: &Principal,
        name: &str,
        timeout: Duration,
    ) -> Result<OperationSnapshot, SkillError> {
        let until = Instant::now() + timeout.min(MAX_WAIT);
        loop {
            let changed = self.wait_for_change(id(name));
            let (operation, stored) = self.find(principal, name).await?;
            if operation.state.is_done() || Instant::now() >= until || self.shutdown.is_cancelled() {
                return self.snapshot(operation, stored).await;
            }
            tokio::select! {
                () = changed => {}
                () = self.shutdown.cancelled() => {}
                () = tokio::time::sleep_until(until.min(Instant::now() + POLL)) => {}
            }
        }
    }

    /// Cancels an operation, wherever it runs. Has no effect on one that is done.
    ///
    /// # Errors
    /// It does not exist for this principal, or the store failed.
    pub(crate) async fn cancel(&self, principal: &Principal, name: &str) -> Result<(), SkillError> {
        let (operation, _) = self.find(principal, name).await?;
        let [end, uncertain_end] = [false, true].map(|it| end::cancellation(&operation, it, self.keep(&operation)));
        self.store()?.cancel(&operation.id, &end, &uncertain_end).await.map_err(failure)?;
        if let Some(call) = self.running.lock().get(&operation.id) {
            call.cancellation.notify_one();
        }
        if operation.runs > 0 && operation.state < State::Running {
            self.cancel_left_run(&operation.id);
        }
        self.notify(&operation.id);
        Ok(())
    }

    /// Has the executor cancel what a worker may have kept of an operation. Beyond the limit, the worker does so after a while.
    fn cancel_left_run(&self, id: &str) {
        let mut cancelled = self.cancelled.lock();
        if cancelled.len() < MAX_CANCELLED {
            cancelled.push(id.to_owned());
            self.submitted.notify_one();
        }
    }

    /// Removes an operation that is done.
    ///
    /// # Errors
    /// It does not exist for this principal or is not done, or the store failed.
    pub(crate) async fn delete(&self, principal: &Principal, name: &str) -> Result<(), SkillError> {
        let (operation, _) = self.find(principal, name).await?;
        if !operation.state.is_done() {
            return Err(wrong_state("has not ended: cancel it first"));
        }
        self.store()?.delete(&operation.id).await.map_err(failure)?;
        Ok(())
    }

    /// Counts the operations that wait and run. None without a store.
    pub(crate) fn gauges(&self) -> Option<OperationGauges> {
        let now_ms = self.config.store.as_ref().and(self.store.get())?.now_ms();
        let age_ms = now_ms.saturating_sub(self.oldest_ms.load(Ordering::Relaxed)).max(0);
        Some(OperationGauges {
            waiting: self.waiting.lock().values().sum(),
            running: self.running.lock().len(),
            oldest: Duration::from_millis(age_ms.cast_unsigned()),
        })
    }

    /// Whether an operation waits for workers that do not answer: for as long as one of them may have its run.
    fn waits_for_workers(&self, id: &str) -> bool {
        let mut unsure = self.unsure_since.lock();
        unsure.retain(|_, since| since.elapsed() < 2 * KEPT);
        unsure.entry(id.to_owned()).or_insert_with(Instant::now).elapsed() < KEPT
    }

    /// Counts one more operation that waits, until the next look at the store.
    fn note_waiting(&self, principal: &str) {
        *self.waiting.lock().entry(principal.to_owned()).or_default() += 1;
    }

    /// Whether no operation waits, and no other gateway can submit any.
    fn has_nothing_to_do(&self) -> bool {
        let is_alone = self.store.get().is_some_and(|it| !it.is_shared());
        is_alone && self.waiting.lock().is_empty() && self.cancelled.lock().is_empty()
    }

    /// Finds an operation, and its stored result.
    async fn find(&self, principal: &Principal, name: &str) -> Result<(StoredOperation, Vec<u8>), SkillError> {
        let id = Some(id(name)).filter(|it| unhex::<ID_BYTES>(it).is_some()).ok_or_else(unknown_operation)?;
        let found = self.store()?.get(id).await.map_err(failure)?;
        found.filter(|(operation, _)| may_see(principal, operation)).ok_or_else(unknown_operation)
    }

    /// Returns the store that is configured, once it is open.
    pub(crate) fn open_store(&self) -> Option<Store> {
        self.config.store.as_ref().and(self.store.get()).cloned()
    }

    /// Returns the store, which without a configured one has only tasks.
    ///
    /// # Errors
    /// It can't be used now.
    fn store(&self) -> Result<&Store, SkillError> {
        self.store.get().ok_or_else(|| {
            let message = format!("operations can't be used now: {}", self.reason.lock());
            SkillError::unavailable(message).with_blame(Blame::Gateway)
        })
    }

    /// Returns the store that is configured.
    ///
    /// # Errors
    /// There is none, or it can't be used now.
    fn configured_store(&self) -> Result<&Store, SkillError> {
        if self.config.store.is_none() {
            let message = "this gateway keeps no operations: set OPENSKILL_STORE";
            return Err(SkillError::unavailable(message).with_blame(Blame::Gateway));
        }
        self.store()
    }

    /// How long an operation is kept after its end.
    fn keep(&self, operation: &StoredOperation) -> Duration {
        if operation.task_view.is_empty() { self.config.keep } else { self.config.keep_tasks }
    }

    /// The store, if it is open and other gateways may use it too.
    pub(crate) fn shared_store(&self) -> Option<&Store> {
        self.store.get().filter(|it| it.is_shared())
    }

    /// Whether the store is one that gateways share.
    pub(crate) fn may_share(&self) -> bool {
        matches!(self.config.store, Some(Location::Postgres(_)))
    }

    /// Identifies this process in the store.
    pub(crate) fn gateway_id(&self) -> &str {
        &self.gateway
    }

    /// Completes when an operation may have changed. Changes after this was called are not missed.
    fn wait_for_change(&self, id: &str) -> impl Future<Output = ()> + use<'_> {
        let mut notified = Box::pin(self.group(id).notified());
        notified.as_mut().enable();
        notified
    }

    /// Wakes those who wait for a change of an operation.
    fn notify(&self, id: &str) {
        self.group(id).notify_waiters();
    }

    fn group(&self, id: &str) -> &Notify {
        let number = self.hasher.hash_one(id) as usize % CHANGE_GROUPS;
        &self.changes[number]
    }
}

/// Whether a principal may know of an operation: it is the owner and may still call the skill, or an administrator.
fn may_see(principal: &Principal, operation: &StoredOperation) -> bool {
    is_owner(principal, operation) || principal.is_admin()
}

fn is_owner(principal: &Principal, operation: &StoredOperation) -> bool {
    operation.principal == principal.name()
        && principal.allows(&operation.skill_id, &operation.toolset, operation.destructive)
}

/// Returns the id in a name.
fn id(name: &str) -> &str {
    name.strip_prefix("operations/").unwrap_or(name)
}

fn unknown_operation() -> SkillError {
    SkillError::new(ErrorCode::NotFound, "there is no such operation: it may have been removed after its retention")
}

fn wrong_state(reason: &str) -> SkillError {
    SkillError::new(ErrorCode::FailedPrecondition, format!("the operation {reason}"))
}

/// Converts a failure of the store. The log has the reason, because it may name files and hosts.
fn failure(error: StoreError) -> SkillError {
    tracing::error!(%error, "the store failed");
    let may_have_run = matches!(error, StoreError::Unknown(_));
    let message = if may_have_run {
        "the store did not confirm the change, which may have happened: look before you try again"
    } else {
        "the store can't be used now: try again later"
    };
    SkillError { may_have_run, ..SkillError::unavailable(message) }.with_blame(Blame::Gateway)
}
