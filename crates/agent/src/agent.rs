//! The agent: checks who owns a conversation, and runs at most one turn per conversation.
//!
//! - `steer`: brings inputs to a turn
//! - `upkeep`: what it does from time to time

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use openskill_identity::shares::Pool;
use openskill_model::Models;
use openskill_proto::v1;
use openskill_store::Store;
use openskill_store::conversations::Conversation;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::AgentConfig;
use crate::delegates::Delegates;
use crate::delegation::{SubAgentResult, SubAgentTask};
use crate::entry::{Entry, Mode, Started};
use crate::error::{AgentError, check_text};
use crate::feed;
pub use crate::feed::Events;
pub use crate::input::Input;
pub(crate) use crate::input::request_id;
use crate::journal::{Journal, new_id};
use crate::locks::Locks;
use crate::reservation::{ResumeReason, TurnReservation, TurnReservations};
use crate::secrets::Secrets;
use crate::skills::{Caller, SkillGateway, UserIdentity, Validity};
use crate::turn::{AgentResources, State, Turn, TurnOrigin};

mod steer;
mod upkeep;

/// The maximum size of the secrets of all conversations in memory, in bytes.
const SECRET_BYTES: usize = 16 << 20;

/// Runs the turns of all conversations. Cheap to clone.
#[derive(Clone)]
pub struct Agent(Arc<AgentInner>);

struct AgentInner {
    shared: Arc<AgentResources>,
    delegates: Delegates,
    /// The turns in memory, by conversation id.
    turns: Mutex<HashMap<String, RunningTurn>>,
    secrets: Mutex<HashMap<String, Arc<Secrets>>>,
    /// Locked while a turn begins or resumes, so that two messages never begin two turns.
    locks: Locks,
    reservations: TurnReservations,
    secret_bytes: Pool,
    /// Cancelled to end all event streams.
    closed: CancellationToken,
}

struct RunningTurn {
    turn: Arc<Turn>,
    task: JoinHandle<()>,
}

/// An accepted input.
pub struct Accepted {
    /// The conversation id.
    pub conversation_id: String,
    /// The events after the last one before the input, including ephemeral ones. The stream does not end when the turn ends.
    pub events: Events,
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepted").field("conversation_id", &self.conversation_id).finish_non_exhaustive()
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("running", &self.0.turns.lock().len()).finish_non_exhaustive()
    }
}

impl Agent {
    /// Opens the store of conversations, and resumes turns that a crash interrupted. `store` is the one that the
    /// configuration names, if it is open. A database that can't be reached now is opened later.
    ///
    /// # Errors
    /// [`AgentError::Store`]: the conversations can't be opened.
    pub async fn start(
        config: AgentConfig,
        store: Option<Store>,
        models: Models,
        skills: Arc<dyn SkillGateway>,
    ) -> Result<Self, AgentError> {
        let journal = Journal::new(config.store.clone(), store);
        let shared = AgentResources { config, journal, models, skills, shutdown: CancellationToken::new() };
        let agent = Self(Arc::new(AgentInner {
            delegates: Delegates::new(&shared),
            reservations: TurnReservations::new(shared.config.max_turns),
            shared: Arc::new(shared),
            turns: Mutex::default(),
            secrets: Mutex::default(),
            locks: Locks::default(),
            secret_bytes: Pool::new(SECRET_BYTES),
            closed: CancellationToken::new(),
        }));
        match agent.open().await {
            Err(error) if agent.journal().is_shared() => {
                tracing::warn!(%error, "conversations are unavailable until the store can be reached");
            }
            opened => opened?,
        }
        agent.start_upkeep();
        Ok(agent)
    }

    async fn open(&self) -> Result<(), AgentError> {
        self.journal().open().await?;
        self.journal().remove_unused(self.0.shared.config.conversation_lifetime).await?;
        // Another gateway may run turns of a shared store: the upkeep resumes them once their leases have ended.
        if self.journal().is_shared() { Ok(()) } else { self.recover().await }
    }

    /// Resumes all turns that the log says are running.
    pub(crate) async fn recover(&self) -> Result<(), AgentError> {
        for Conversation { id, principal, .. } in self.journal().abandoned().await? {
            tracing::info!(conversation = id, "resuming a turn after a restart");
            match self.resume(&principal, &id, ResumeReason::Anyway).await {
                Ok(_) | Err(AgentError::Elsewhere | AgentError::NoConversation) => {}
                // It must not keep others from being resumed.
                Err(error) => tracing::warn!(%error, conversation = id, "a turn can't be resumed"),
            }
        }
        Ok(())
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.0.shared.journal
    }

    /// Accepts a user's input. If `conversation` is empty, the input must be a message, and begins a new
    /// conversation. A message begins a turn in the trace of `caller`, or in a new trace if `caller` has none.
    ///
    /// # Errors
    /// The input is rejected and nothing has changed.
    pub async fn send(&self, caller: &Caller, conversation: &str, input: Input) -> Result<Accepted, AgentError> {
        if self.0.shared.shutdown.is_cancelled() {
            return Err(AgentError::Shutdown);
        }
        match input {
            Input::Message(message) => self.begin(caller, conversation, message).await,
            _ if conversation.is_empty() => Err(AgentError::Invalid("conversation_id is missing".to_owned())),
            input => {
                let found = self.journal().get(&caller.owner.principal, conversation).await?;
                // Because the end of the turn gets a later number than `found`, the events include it.
                if !matches!(found.state(), v1::ConversationState::Running | v1::ConversationState::Waiting) {
                    return Err(AgentError::NotWaiting);
                }
                let events = self.feed(conversation, found.last_number, true);
                match self.steer(&caller.owner, conversation, input.clone()).await {
                    // Another gateway continued the turn that was in memory: try again with what it wrote.
                    Err(AgentError::Elsewhere) => self.steer(&caller.owner, conversation, input).await?,
                    steered => steered?,
                }
                Ok(Accepted { conversation_id: conversation.to_owned(), events })
            }
        }
    }

    /// Runs a sub-agent until it answers or `cancel` is triggered. `progress` receives the ids of the skills that
    /// it calls.
    ///
    /// # Errors
    /// The sub-agent could not begin, or did not finish. If it did not finish, its calls may have had effects.
    pub async fn delegate(
        &self,
        task: SubAgentTask,
        progress: mpsc::Sender<String>,
        cancel: CancellationToken,
    ) -> Result<SubAgentResult, AgentError> {
        self.0.delegates.run(task, progress, cancel).await
    }

    /// Returns the events of a conversation after the number `after`. With `follow`, new events follow until the
    /// conversation is deleted or the agent shuts down.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub async fn events(
        &self,
        principal: &str,
        conversation: &str,
        after: u64,
        follow: bool,
    ) -> Result<Events, AgentError> {
        self.journal().get(principal, conversation).await?;
        Ok(self.feed(conversation, after, follow))
    }

    /// Deletes a conversation. Cancels its turn first if one is running.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub async fn delete(&self, principal: &str, conversation: &str) -> Result<(), AgentError> {
        let _locked = self.0.locks.lock(conversation).await;
        self.journal().get(principal, conversation).await?;
        let running = self.0.turns.lock().remove(conversation);
        if let Some(running) = running {
            running.turn.cancel.cancel();
            // A cancelled turn writes its last entries before its task ends.
            let _ = running.task.await;
        }
        self.0.secrets.lock().remove(conversation);
        self.journal().delete(principal, conversation).await
    }

    /// Stops accepting input. Running turns stop between two entries, and resume at the next start.
    pub async fn shutdown(&self) {
        self.0.shared.shutdown.cancel();
        let running: Vec<_> = self.0.turns.lock().drain().map(|(_, running)| running).collect();
        for running in running {
            let _ = running.task.await;
        }
    }

    /// Ends all event streams.
    pub(crate) fn end_streams(&self) {
        self.0.closed.cancel();
    }

    async fn begin(
        &self,
        caller: &Caller,
        conversation: &str,
        message: v1::UserMessage,
    ) -> Result<Accepted, AgentError> {
        let owner = &caller.owner;
        let principal = owner.principal.as_str();
        check_text("message.text", &message.text)?;
        let is_new = conversation.is_empty();
        let conversation = if is_new { new_id() } else { conversation.to_owned() };
        // Lock the new conversation before a list can show it. Otherwise another message could begin a second
        // turn.
        let _locked = self.0.locks.lock(&conversation).await;
        let bytes = if is_new { 0 } else { self.idle(principal, &conversation).await? };
        let reservation = self.0.reservations.reserve(principal, bytes)?;
        let mut state =
            if is_new { State::default() } else { self.journal().fold(&conversation, State::from_entries).await? };
        let started = Started {
            credential: owner.credential.clone(),
            trace_id: caller.trace_id_or_new(),
            ..self.resolve_start(message, state.turn_start())?
        };
        self.check_validity(owner)?;
        if is_new {
            self.journal().create_as(&conversation, principal).await?;
        }
        let events = self.feed(&conversation, state.next_number() - 1, true);
        let secrets = self.secrets_of(principal, &conversation);
        let entry = Entry::Started(started).without_secrets(&secrets);
        match self.journal().append_at(&conversation, state.next_number(), vec![entry]).await {
            Ok(written) => written.into_iter().for_each(|it| state.apply(it)),
            Err(error) => {
                if is_new {
                    self.journal().delete(principal, &conversation).await?;
                }
                return Err(error);
            }
        }
        let origin = TurnOrigin { principal: principal.to_owned(), parent: caller.parent };
        self.spawn(origin, &conversation, state, reservation, false);
        Ok(Accepted { conversation_id: conversation, events })
    }

    /// Returns the size of a conversation in bytes, if no turn is running or waiting.
    ///
    /// # Errors
    /// [`AgentError::Busy`]: a turn is running or waiting.
    async fn idle(&self, principal: &str, conversation: &str) -> Result<usize, AgentError> {
        let state = self.journal().get(principal, conversation).await?.state();
        if matches!(state, v1::ConversationState::Running | v1::ConversationState::Waiting) {
            return Err(AgentError::Busy);
        }
        self.journal().bytes(principal, conversation).await
    }

    /// Checks that the owner's credential is valid.
    ///
    /// # Errors
    /// [`AgentError::Revoked`]: the credential was revoked, has expired, or is not known yet.
    fn check_validity(&self, owner: &UserIdentity) -> Result<(), AgentError> {
        if self.0.shared.skills.validity(owner) == Validity::Valid { Ok(()) } else { Err(AgentError::Revoked) }
    }

    /// Builds the first entry of a turn. Fields that the message leaves unset get the values of the previous turn,
    /// or else defaults.
    fn resolve_start(&self, message: v1::UserMessage, last: Option<&Started>) -> Result<Started, AgentError> {
        let config = &self.0.shared.config;
        let wanted = if message.model.is_empty() { last.map_or("", |it| it.model.as_str()) } else { &message.model };
        // The model of an earlier turn may have been removed. A model named by the message must exist.
        let picked = match self.0.shared.models.pick(wanted) {
            Err(error) if message.model.is_empty() => {
                tracing::debug!(%error, "the conversation's model is no longer configured");
                self.0.shared.models.pick("")
            }
            picked => picked,
        };
        let model = picked.map_err(|error| AgentError::Invalid(error.to_string()))?;
        let mode = match message.mode() {
            v1::ApprovalMode::Unspecified => last.map(|it| it.mode).unwrap_or_default(),
            v1::ApprovalMode::Ask => Mode::Ask,
            v1::ApprovalMode::ReadOnly => Mode::ReadOnly,
            v1::ApprovalMode::Auto => Mode::Auto,
        };
        Ok(Started {
            text: message.text,
            model: model.map(|it| it.name().to_owned()).unwrap_or_default(),
            mode,
            limits: config.limits_within(message.limits.unwrap_or_default()),
            toolset: message.toolset,
            ..Started::default()
        })
    }

    fn spawn(
        &self,
        origin: TurnOrigin,
        conversation: &str,
        state: State,
        reservation: TurnReservation,
        is_resumed: bool,
    ) -> Arc<Turn> {
        let secrets = self.secrets_of(&origin.principal, conversation);
        let (shared, id) = (Arc::clone(&self.0.shared), conversation.to_owned());
        let TurnReservation { slot, memory, ending } = reservation;
        let turn = Arc::new(Turn::new(shared, id, origin, secrets, state, memory, is_resumed));
        let (runs, inner) = (Arc::clone(&turn), Arc::downgrade(&self.0));
        let task = tokio::spawn(async move {
            runs.run().await;
            drop(slot);
            runs.release_if_stopped().await;
            if let Some(inner) = inner.upgrade() {
                Self(inner).forget(&runs);
            }
            drop(runs);
            drop(ending);
        });
        self.0.turns.lock().insert(conversation.to_owned(), RunningTurn { turn: Arc::clone(&turn), task });
        turn
    }

    /// Removes an unloaded turn from memory.
    fn forget(&self, turn: &Arc<Turn>) {
        let mut turns = self.0.turns.lock();
        if turns.get(&turn.conversation).is_some_and(|it| Arc::ptr_eq(&it.turn, turn)) {
            turns.remove(&turn.conversation);
        }
    }

    /// Returns the secrets of a conversation. Also drops the secrets of idle conversations.
    fn secrets_of(&self, principal: &str, conversation: &str) -> Arc<Secrets> {
        let lifetime = self.0.shared.config.conversation_lifetime;
        let mut all = self.0.secrets.lock();
        all.retain(|_, it| Arc::strong_count(it) > 1 || !it.is_idle(lifetime));
        let new = || Arc::new(Secrets::within_share(self.0.secret_bytes.share(principal)));
        Arc::clone(all.entry(conversation.to_owned()).or_insert_with(new))
    }

    fn feed(&self, conversation: &str, after: u64, follow: bool) -> Events {
        feed::events(self.journal().clone(), self.0.closed.clone(), conversation, after, follow)
    }

    /// Returns the number of turns in memory.
    #[cfg(test)]
    pub(crate) fn turns_in_memory(&self) -> usize {
        self.0.turns.lock().len()
    }
}
