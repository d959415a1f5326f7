//! A turn: everything from a user's message to the answer.
//!
//! ```text
//! work: what next? (state) -> ask the model -> settle its calls (prepare, approve, invoke) -> ... -> end
//! ```
//!
//! Every step is written to the conversation's log before it takes effect, and the next step depends only on the
//! entries. So a turn that a crash interrupted resumes by running [`Turn::run`] again.
//!
//! - `state`: the state derived from the entries; does no I/O
//! - `approval`: decides whether a call needs the user's approval; does no I/O
//! - `ask`: a model request, or the router's choice
//! - `toolbox`: the tools that the model sees
//! - `settle`: runs the calls of a reply; `call`: a skill call; `ready`: its arguments; `builtin`: a built-in tool call
//! - `pictures`: the pictures that the model sees; `look`: fetches them
//! - `user`: user inputs, and waiting for them
//! - `spans`: the turn's OpenTelemetry spans

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use openskill_identity::shares::Share;
use openskill_model::Models;
use openskill_proto::trace::TraceContext;
use openskill_proto::v1::{self, chat_event::Event};
use parking_lot::Mutex;
use tokio::sync::{OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;

use crate::config::AgentConfig;
use crate::entry::{Delegated, EndReason, Entry, TurnEnded, TurnUsage};
use crate::error::{AgentError, Bound};
use crate::event::usage;
use crate::journal::Journal;
use crate::secrets::Secrets;
use crate::skills::{Caller, SkillGateway, UserIdentity, Validity};

mod approval;
mod ask;
mod builtin;
mod call;
mod look;
mod pictures;
mod ready;
mod settle;
mod spans;
mod state;
mod toolbox;
mod user;

#[cfg(test)]
mod tests;

use pictures::Pictures;
use spans::TurnSpans;
pub(crate) use state::{CallStage, Next, State};

/// How long a turn that waits for its user stays in memory.
const PARK_AFTER: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(60) };

/// How often a resumed turn checks whether its credential is known again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The error of a turn whose credential is no longer valid.
const REVOKED: &str = "the key or token that began this turn is no longer valid, or was not sent again after a restart: \
                       send the message again";

/// The maximum memory of all turns, in bytes.
pub(crate) const TURN_MEMORY_BYTES: usize = 256 << 20;

/// Returns the estimated memory of a turn in bytes: its conversation, the model's view of it, and the model
/// request.
pub(crate) fn turn_bytes(conversation: usize) -> usize {
    conversation.saturating_mul(2).saturating_add(128 << 10)
}

/// The resources shared by all turns of an agent.
pub(crate) struct AgentResources {
    pub(crate) config: AgentConfig,
    pub(crate) journal: Journal,
    pub(crate) models: Models,
    pub(crate) skills: Arc<dyn SkillGateway>,
    pub(crate) shutdown: CancellationToken,
}

/// For whom and in which trace a turn runs.
#[derive(Debug)]
pub(crate) struct TurnOrigin {
    /// The principal for which the turn acts. Empty if callers are not authenticated.
    pub(crate) principal: String,
    /// The span that began the turn, from a client or from the call that started a sub-agent. `None` if the turn
    /// resumes.
    pub(crate) parent: Option<TraceContext>,
}

pub(crate) struct Turn {
    shared: Arc<AgentResources>,
    pub(crate) conversation: String,
    caller: Caller,
    /// The properties of a sub-agent. `None` for a user's turn.
    delegated: Option<Delegated>,
    secrets: Arc<Secrets>,
    state: Arc<Mutex<State>>,
    /// Locked while entries are appended, so that the state applies them in log order.
    writing: Arc<tokio::sync::Mutex<()>>,
    /// Counts entries, to wake tasks that wait for a change of the state.
    changed: watch::Sender<usize>,
    pending_calls: Mutex<PendingCalls>,
    /// The ids of questions that this process asked, or whose answers it has already used. All other questions in
    /// the log were asked by a previous process.
    questions: Mutex<HashSet<String>>,
    /// The time until which missing skills are tolerated. After a restart, a turn may resume before the workers
    /// reconnect.
    skills_come_until: Option<Instant>,
    spans: TurnSpans,
    pictures: Mutex<Pictures>,
    is_retired: AtomicBool,
    /// Whether another gateway has continued the turn, so that this one must not write.
    is_abandoned: AtomicBool,
    pub(crate) cancel: CancellationToken,
    /// The turn's share of the memory limit.
    memory: Arc<Mutex<Share>>,
    /// Cancelled when [`Turn::run`] returns, to wake tasks that wait for it.
    left: CancellationToken,
    failure: Mutex<Option<AgentError>>,
}

/// The calls that a turn is working on, by number.
#[derive(Debug, Default, Clone, Copy)]
struct PendingCalls {
    /// Calls being settled.
    calls: usize,
    /// Calls being settled that wait for the user.
    waiting: usize,
    /// Calls running at the gateway.
    running: usize,
}

/// Updates [`PendingCalls`] on drop, even if the work is cancelled.
struct LeaveOnDrop<'a> {
    turn: &'a Turn,
    leave: fn(&mut PendingCalls),
}

impl Drop for LeaveOnDrop<'_> {
    fn drop(&mut self) {
        (self.leave)(&mut self.turn.pending_calls.lock());
    }
}

impl Turn {
    /// Creates a turn from the state of its conversation and a share of memory. `is_resumed` tells whether the
    /// turn began earlier, perhaps in a previous process.
    pub(crate) fn new(
        shared: Arc<AgentResources>,
        conversation: String,
        origin: TurnOrigin,
        secrets: Arc<Secrets>,
        state: State,
        memory: Share,
        is_resumed: bool,
    ) -> Self {
        let TurnOrigin { principal, parent } = origin;
        let started = state.turn_start();
        let trace_id = started.map(|it| it.trace_id.clone()).unwrap_or_default();
        let credential = started.map(|it| it.credential.clone()).unwrap_or_default();
        let delegated = started.and_then(|it| it.delegated.clone());
        let spans = TurnSpans::new(shared.config.tracer.as_ref(), &trace_id, parent);
        let skills_come_until = is_resumed.then(|| Instant::now() + shared.config.restart_patience);
        Self {
            cancel: shared.shutdown.child_token(),
            shared,
            conversation,
            caller: Caller {
                owner: UserIdentity { principal, credential },
                trace_id,
                parent: spans.context().or(parent),
            },
            spans,
            pictures: Mutex::default(),
            delegated,
            secrets,
            state: Arc::new(Mutex::new(state)),
            writing: Arc::default(),
            changed: watch::Sender::new(0),
            pending_calls: Mutex::default(),
            questions: Mutex::default(),
            is_retired: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            memory: Arc::new(Mutex::new(memory)),
            left: CancellationToken::new(),
            failure: Mutex::default(),
            skills_come_until,
        }
    }

    /// Works until the turn ends, is unloaded, or the agent shuts down. The log records the remaining work.
    pub(crate) async fn run(&self) {
        let _working = self.spans.start_turn(&self.conversation, &self.state);
        let _left = self.left.clone().drop_guard();
        let done = tokio::select! {
            done = self.work() => done,
            () = self.cancel.cancelled() => {
                // On shutdown, do nothing: the turn resumes at the next start.
                if self.shared.shutdown.is_cancelled() { Ok(()) } else { self.stop(EndReason::Cancelled, "").await }
            }
            () = self.wait_until_parked() => Ok(()),
        };
        let done = match done {
            // The turn reserved space for its end when it began.
            Err(error @ AgentError::Full(_)) => self.stop(EndReason::Failed, &error.to_string()).await,
            done => done,
        };
        self.is_retired.store(true, Ordering::Release);
        if done == Err(AgentError::Elsewhere) {
            tracing::debug!(conversation = self.conversation, "another gateway continues the turn");
        } else if let Err(error) = done {
            tracing::error!(conversation = self.conversation, %error, "the turn stopped");
            let done =
                v1::TurnDone { end: v1::TurnEnd::Failed.into(), error: error.to_string(), ..v1::TurnDone::default() };
            self.show(Event::Done(done));
            *self.failure.lock() = Some(error);
        }
    }

    /// Waits until [`Turn::run`] returns.
    pub(crate) async fn wait_until_stopped(&self) {
        self.left.cancelled().await;
    }

    /// Ends the work on a turn that another gateway has continued. Writes nothing.
    pub(crate) async fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::Release);
        self.cancel.cancel();
        self.wait_until_stopped().await;
    }

    /// Lets another gateway continue a turn that stopped early, because of a shutdown or a failure.
    pub(crate) async fn release_if_stopped(&self) {
        if self.shared.shutdown.is_cancelled() || self.failure().is_some() {
            self.shared.journal.release(&self.conversation).await;
        }
    }

    /// Returns why the turn stopped without an end entry. `None` if it did not stop this way.
    pub(crate) fn failure(&self) -> Option<AgentError> {
        self.failure.lock().clone()
    }

    /// Sends an ephemeral event to watchers.
    fn show(&self, event: Event) {
        self.shared.journal.show(&self.conversation, event);
    }

    async fn work(&self) -> Result<(), AgentError> {
        loop {
            let is_over = self.state.lock().is_over();
            if !is_over && !self.is_authorized().await {
                return self.stop(EndReason::Failed, REVOKED).await;
            }
            let next = self.state.lock().next();
            match next {
                Next::Nothing => return Ok(()),
                Next::Ask => self.ask().await?,
                Next::Settle(calls) => self.settle(calls).await?,
                Next::End => self.end().await?,
            }
        }
    }

    /// Returns whether the credential that began the turn is still valid. After a restart, waits until its owner
    /// presents it again.
    async fn is_authorized(&self) -> bool {
        loop {
            let is_early = self.skills_come_until.is_some_and(|it| Instant::now() < it);
            match self.shared.skills.validity(&self.caller.owner) {
                Validity::Valid => return true,
                Validity::Unknown if is_early => tokio::time::sleep(LOOK_AGAIN).await,
                Validity::Ended | Validity::Unknown => return false,
            }
        }
    }

    /// Writes the turn's last entry.
    async fn finish(&self, ended: TurnEnded) -> Result<(), AgentError> {
        let used = self.state.lock().used;
        self.write(vec![Entry::Ended(TurnEnded { used, ..ended })]).await
    }

    /// Appends entries to the log.
    async fn write(&self, entries: Vec<Entry>) -> Result<(), AgentError> {
        let writing = self.lock().await;
        self.append(writing, entries).await
    }

    /// Prevents other tasks from appending entries, so that the state does not change.
    async fn lock(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.writing).lock_owned().await
    }

    /// Like [`Turn::write`], for callers that already hold the lock.
    async fn append(&self, writing: OwnedMutexGuard<()>, entries: Vec<Entry>) -> Result<(), AgentError> {
        if self.is_abandoned.load(Ordering::Acquire) {
            return Err(AgentError::Elsewhere);
        }
        let (journal, conversation) = (self.shared.journal.clone(), self.conversation.clone());
        let entries: Vec<_> = entries.into_iter().map(|it| it.without_secrets(&self.secrets)).collect();
        // These entries are already in the log when memory is counted. An answer must wake the turn and an end
        // must finish it, so both may exceed the share of memory.
        let is_due = matches!(entries.last(), Some(Entry::Answered(_) | Entry::ApprovalDecided(_) | Entry::Ended(_)));
        // While no call runs here, any gateway may go on with what the user says.
        let is_free = matches!(entries.last(), Some(Entry::Waiting { .. })) && self.pending_calls.lock().running == 0;
        let (state, changed, memory) = (Arc::clone(&self.state), self.changed.clone(), Arc::clone(&self.memory));
        // Use a separate task: if the caller is cancelled, the state must still apply what is in the log.
        let appended = tokio::spawn(async move {
            let number = state.lock().next_number();
            let written = journal.append_at(&conversation, number, entries).await?;
            if is_free {
                journal.release(&conversation).await;
            }
            let bytes = turn_bytes(written.iter().map(|it| it.bytes).sum()) - turn_bytes(0);
            {
                let mut state = state.lock();
                written.into_iter().for_each(|it| state.apply(it));
            }
            changed.send_modify(|count| *count += 1);
            drop(writing);
            let mut memory = memory.lock();
            if is_due {
                memory.count(bytes);
            } else if !memory.grow(bytes) {
                return Err(AgentError::Full(Bound::Memory));
            }
            Ok(())
        });
        appended.await.unwrap_or(Err(AgentError::Shutdown))
    }

    /// Returns the session of the turn's calls.
    fn session(&self) -> &str {
        match &self.delegated {
            Some(delegated) if !delegated.session.is_empty() => &delegated.session,
            _ => &self.conversation,
        }
    }

    /// Sends the turn's usage to watchers.
    fn show_usage(&self) {
        let used = self.state.lock().used;
        self.show(Event::Usage(usage(used)));
    }

    /// Waits until the turn can be unloaded, because for a while only the user could have continued it.
    async fn wait_until_parked(&self) {
        loop {
            let mut changed = self.changed.subscribe();
            let pending = *self.pending_calls.lock();
            let is_parkable = pending.calls > 0 && pending.waiting == pending.calls && pending.running == 0;
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep(PARK_AFTER) => if is_parkable && self.try_retire().await { return },
            }
        }
    }

    /// Unloads the turn, unless the user has sent an input in the meantime. Returns whether the turn was unloaded.
    /// If so, it resumes from the log.
    async fn try_retire(&self) -> bool {
        // No answer can be written while this lock is held.
        let _writing = self.lock().await;
        let pending = *self.pending_calls.lock();
        let open = self.state.lock().open_requests().len();
        let retires = pending.waiting == pending.calls && pending.running == 0 && open >= pending.waiting;
        self.is_retired.store(retires, Ordering::Release);
        retires
    }

    /// Returns whether the turn was unloaded or its work has ended.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire) || self.left.is_cancelled()
    }

    /// Returns the last entry of the turn, if it has ended.
    pub(crate) fn end_entry(&self) -> Option<TurnEnded> {
        match &self.state.lock().entries.last()?.entry {
            Entry::Ended(ended) => Some(ended.clone()),
            _ => None,
        }
    }

    /// Returns the turn's usage, and whether it has read untrusted text.
    pub(crate) fn usage_and_taint(&self) -> (TurnUsage, bool) {
        let state = self.state.lock();
        (state.used, state.is_tainted)
    }
}
