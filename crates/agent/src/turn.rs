//! One turn: from a user's message to the answer.
//!
//! ```text
//! work: what next? (state) -> ask the model -> settle its calls (prepare, approve, invoke) -> ... -> end
//! ```
//!
//! Every step is an entry in the conversation's log before it has an effect, and what comes next follows from the entries
//! alone. So a turn that a crash cut off goes on by running [`Turn::run`] again.
//!
//! - `state`: what the entries say; pure
//! - `approval`: whether a call needs the user's approval; pure
//! - `ask`: one request to the model, or the router's choice
//! - `toolbox`: the tools that the model sees
//! - `settle`: the calls of a reply; `call`: one call of a skill; `ready`: its arguments; `own`: a call of the agent's own tools
//! - `pictures`: what the model looks at; `look`: shows it
//! - `user`: what the user sends, and waiting for it
//! - `spans`: the OpenTelemetry spans of a turn

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use openskill_identity::shares::Share;
use openskill_proto::trace::TraceContext;
use openskill_proto::v1::{self, chat_event::Event};
use tokio::sync::{OwnedMutexGuard, watch};
use tokio_util::sync::CancellationToken;

use crate::config::AgentConfig;
use crate::entry::event::usage;
use crate::entry::{Delegated, End, Ended, Entry, Used};
use crate::error::{AgentError, Bound};
use crate::journal::Journal;
use crate::provider::Models;
use crate::secrets::Secrets;
use crate::skills::{Caller, Owner, Skills, Validity};

mod approval;
mod ask;
mod call;
mod look;
mod own;
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
pub(crate) use state::{Course, Next, State};

/// How long a turn that waits for its user stays in memory.
const PARK_AFTER: Duration = if cfg!(test) { Duration::from_millis(100) } else { Duration::from_secs(60) };

/// How often it looks meanwhile whether its credential is known again.
const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// Why a turn ends whose credential has ended.
const REVOKED: &str = "the key or token that began this turn is no longer valid, or was not shown again after a restart: \
                       send the message again";

/// The memory of all turns, in bytes.
pub(crate) const TURN_MEMORY_BYTES: usize = 256 << 20;

/// The memory of a turn, by estimate: its conversation, what the model reads of it, and the request to the model.
pub(crate) fn turn_bytes(conversation: usize) -> usize {
    conversation.saturating_mul(2).saturating_add(128 << 10)
}

/// What all turns of an agent share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: AgentConfig,
    pub(crate) journal: Journal,
    pub(crate) models: Models,
    pub(crate) skills: Arc<dyn Skills>,
    pub(crate) shutdown: CancellationToken,
}

/// A running turn.
pub(crate) struct Turn {
    shared: Arc<Shared>,
    conversation: String,
    caller: Caller,
    /// Set if it is a sub-agent's.
    delegated: Option<Delegated>,
    secrets: Arc<Secrets>,
    state: Arc<Mutex<State>>,
    /// Held while entries are appended, so that the state's order is the log's.
    writing: Arc<tokio::sync::Mutex<()>>,
    /// Counts entries: whoever waits looks at the state again.
    changed: watch::Sender<usize>,
    hands: Mutex<Hands>,
    /// The questions that this process asked for a call, or whose answers it handed on: the others are of one that ended.
    questions: Mutex<HashSet<String>>,
    /// Until when skills that are missing may still come: a turn that goes on after a restart may be earlier than the workers.
    skills_come_until: Option<Instant>,
    spans: TurnSpans,
    pictures: Mutex<Pictures>,
    is_retired: AtomicBool,
    cancel: CancellationToken,
    /// What it takes of the memory for turns.
    memory: Arc<Mutex<Share>>,
    /// Cancelled when nobody works on it any more.
    left: CancellationToken,
    failure: Mutex<Option<AgentError>>,
}

/// Who works on the turn.
#[derive(Debug, Default, Clone, Copy)]
struct Hands {
    /// Calls that are being settled.
    calls: usize,
    /// Those of them that wait for the user.
    waiting: usize,
    /// Calls that run at the gateway.
    running: usize,
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("conversation", &self.conversation).finish_non_exhaustive()
    }
}

impl Turn {
    /// The turn of a conversation in this state, with its share of memory, on behalf of a principal, and under the span that
    /// called it, if one did. `is_resumed`: it began before, perhaps in a process that ended.
    pub(crate) fn new(
        shared: Arc<Shared>,
        conversation: String,
        (principal, parent): (String, Option<TraceContext>),
        secrets: Arc<Secrets>,
        (state, memory): (State, Share),
        is_resumed: bool,
    ) -> Self {
        let started = state.started();
        let trace_id = started.map(|it| it.trace_id.clone()).unwrap_or_default();
        let credential = started.map(|it| it.credential.clone()).unwrap_or_default();
        let delegated = started.and_then(|it| it.delegated.clone());
        let spans = TurnSpans::new(shared.config.tracer.as_ref(), &trace_id, parent);
        let skills_come_until = is_resumed.then(|| Instant::now() + shared.config.restart_patience);
        Self {
            cancel: shared.shutdown.child_token(),
            shared,
            conversation,
            caller: Caller { owner: Owner { principal, credential }, trace_id, parent: spans.context().or(parent) },
            spans,
            pictures: Mutex::default(),
            delegated,
            secrets,
            state: Arc::new(Mutex::new(state)),
            writing: Arc::default(),
            changed: watch::Sender::new(0),
            hands: Mutex::default(),
            questions: Mutex::default(),
            is_retired: AtomicBool::new(false),
            memory: Arc::new(Mutex::new(memory)),
            left: CancellationToken::new(),
            failure: Mutex::default(),
            skills_come_until,
        }
    }

    /// Works until the turn ends, or nothing can be done for a while. What is left follows from the log.
    pub(crate) async fn run(&self) {
        let _working = self.spans.working(&self.conversation, &self.state);
        let _left = self.left.clone().drop_guard();
        let done = tokio::select! {
            done = self.work() => done,
            () = self.cancel.cancelled() => {
                // At a shutdown, the turn goes on at the next start.
                if self.shared.shutdown.is_cancelled() { Ok(()) } else { self.stop(End::Cancelled, "").await }
            }
            () = self.parked() => Ok(()),
        };
        let done = match done {
            // What was reserved at its beginning has room for its end.
            Err(error @ AgentError::Full(_)) => self.stop(End::Failed, &error.to_string()).await,
            done => done,
        };
        self.is_retired.store(true, Ordering::Release);
        if let Err(error) = done {
            tracing::error!(conversation = self.conversation, %error, "the turn stopped");
            let done =
                v1::TurnDone { end: v1::TurnEnd::Failed.into(), error: error.to_string(), ..v1::TurnDone::default() };
            self.show(Event::Done(done));
            *self.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    /// Waits until nobody works on the turn any more.
    pub(crate) async fn left(&self) {
        self.left.cancelled().await;
    }

    /// Why it stopped without an end. None if it did not.
    pub(crate) fn failure(&self) -> Option<AgentError> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn conversation(&self) -> &str {
        &self.conversation
    }

    /// Shows watchers an event that is not kept.
    fn show(&self, event: Event) {
        self.shared.journal.show(&self.conversation, event);
    }

    async fn work(&self) -> Result<(), AgentError> {
        loop {
            let is_over = self.state().is_over();
            if !is_over && !self.is_authorized().await {
                return self.stop(End::Failed, REVOKED).await;
            }
            let next = self.state().next();
            match next {
                Next::Nothing => return Ok(()),
                Next::Ask => self.ask().await?,
                Next::Settle(calls) => self.settle(calls).await?,
                Next::End => self.end().await?,
            }
        }
    }

    /// Whether the credential that began the turn still counts. After a restart, its owner may first have to show it again.
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
    async fn finish(&self, ended: Ended) -> Result<(), AgentError> {
        let used = self.state().used();
        self.write(vec![Entry::Ended(Ended { used, ..ended })]).await
    }

    /// Cancels the turn.
    pub(crate) fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Appends entries, in the order of the log.
    async fn write(&self, entries: Vec<Entry>) -> Result<(), AgentError> {
        let writing = self.lock().await;
        self.append(writing, entries).await
    }

    /// Keeps others from appending: what the state says stays true.
    async fn lock(&self) -> OwnedMutexGuard<()> {
        Arc::clone(&self.writing).lock_owned().await
    }

    /// As [`Turn::write`], by who holds the lock already.
    async fn append(&self, writing: OwnedMutexGuard<()>, entries: Vec<Entry>) -> Result<(), AgentError> {
        let (journal, conversation) = (self.shared.journal.clone(), self.conversation.clone());
        let entries: Vec<_> = entries.into_iter().map(|it| it.without(&self.secrets)).collect();
        // What the user sent has woken the turn, and its end ends it: neither is refused once it is written.
        let is_due = matches!(entries.last(), Some(Entry::Answered(_) | Entry::ApprovalDecided(_) | Entry::Ended(_)));
        let (state, changed, memory) = (Arc::clone(&self.state), self.changed.clone(), Arc::clone(&self.memory));
        // A task of its own: whoever writes may be cancelled, and the state must not miss what the log has.
        let appended = tokio::spawn(async move {
            let written = journal.append(&conversation, entries).await?;
            let bytes = turn_bytes(written.iter().map(|it| it.bytes).sum()) - turn_bytes(0);
            {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                written.into_iter().for_each(|it| state.apply(it));
            }
            changed.send_modify(|count| *count += 1);
            drop(writing);
            let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
            if is_due {
                memory.count(bytes);
            } else if !memory.grow(bytes) {
                return Err(AgentError::Full(Bound::Memory));
            }
            Ok(())
        });
        appended.await.unwrap_or(Err(AgentError::Shutdown))
    }

    /// The session of the turn's calls.
    fn session(&self) -> &str {
        match &self.delegated {
            Some(delegated) if !delegated.session.is_empty() => &delegated.session,
            _ => &self.conversation,
        }
    }

    /// Shows watchers what the turn used so far.
    fn show_usage(&self) {
        let used = self.state().used();
        self.show(Event::Usage(usage(used)));
    }

    /// Waits until only the user can continue the turn, and did not for a while.
    async fn parked(&self) {
        loop {
            let mut changed = self.changed.subscribe();
            let hands = *self.hands();
            let is_parkable = hands.calls > 0 && hands.waiting == hands.calls && hands.running == 0;
            tokio::select! {
                _ = changed.changed() => {}
                () = tokio::time::sleep(PARK_AFTER) => if is_parkable && self.retires().await { return },
            }
        }
    }

    /// Leaves the memory, unless the user sent something meanwhile. From then on the turn goes on only from its log.
    async fn retires(&self) -> bool {
        // Nobody answers while this is held.
        let _writing = self.lock().await;
        let hands = *self.hands();
        let open = self.state().open_requests().len();
        let retires = hands.waiting == hands.calls && hands.running == 0 && open >= hands.waiting;
        self.is_retired.store(retires, Ordering::Release);
        retires
    }

    /// Whether nobody works on this turn any more, although it has not ended.
    pub(crate) fn is_retired(&self) -> bool {
        self.is_retired.load(Ordering::Acquire) || self.left.is_cancelled()
    }

    /// How it ended. None if it did not.
    pub(crate) fn ended(&self) -> Option<Ended> {
        match &self.state().entries().last()?.entry {
            Entry::Ended(ended) => Some(ended.clone()),
            _ => None,
        }
    }

    /// What it used so far, and whether it read text of strangers.
    pub(crate) fn used(&self) -> (Used, bool) {
        let state = self.state();
        (state.used(), state.is_tainted())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
