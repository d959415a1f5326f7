//! The agent: whose conversation, and one turn at a time.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openskill_identity::shares::{Pool, Share};
use openskill_proto::v1;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, mpsc};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::AgentConfig;
use crate::delegates::Delegates;
use crate::delegation::{Answer, Task};
use crate::entry::{Entry, Mode, Started};
use crate::error::{AgentError, Bound, check_text};
use crate::feed;
pub use crate::feed::Events;
pub use crate::input::Input;
use crate::journal::{Journal, new_id};
use crate::locks::Locks;
use crate::provider::Models;
use crate::secrets::Secrets;
use crate::skills::{Owner, Skills, Validity};
use crate::turn::{Shared, State, TURN_MEMORY_BYTES, Turn, turn_bytes};

/// Bytes of the secrets of all conversations that are in memory.
const SECRET_BYTES: usize = 16 << 20;

/// An agent. Cheap to clone.
#[derive(Clone)]
pub struct Agent(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    delegates: Delegates,
    /// The turns that are in memory, by conversation.
    turns: Mutex<HashMap<String, Running>>,
    secrets: Mutex<HashMap<String, Arc<Secrets>>>,
    /// Held while a turn begins or comes back, so that two messages can't begin one each.
    locks: Locks,
    /// Turns that are in memory, their memory, and that of secrets.
    places: Pool,
    memory: Pool,
    secret_bytes: Pool,
    /// Held by the one turn that came back to end although there was no room.
    ending: Arc<AsyncMutex<()>>,
}

struct Running {
    turn: Arc<Turn>,
    task: JoinHandle<()>,
}

/// What a turn in memory takes.
struct Room {
    place: Share,
    memory: Share,
    /// Held if there was no room, and the turn is to end.
    ending: Option<OwnedMutexGuard<()>>,
}

/// Why a turn comes back into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Return {
    /// It has something to do, if there is room.
    ToWork,
    /// It was in memory when the process ended, or just before: it needs no room of its own.
    Anyway,
    /// It is to end. If there is no room, such turns come back one at a time.
    ToEnd,
}

/// An input that was taken.
pub struct Accepted {
    /// The conversation.
    pub conversation_id: String,
    /// The number of the last event before the input.
    pub after: u64,
    /// The events from then on, those that are not kept included. They do not end by themselves.
    pub events: Events,
}

impl fmt::Debug for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Accepted")
            .field("conversation_id", &self.conversation_id)
            .field("after", &self.after)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Agent").field("running", &self.turns().len()).finish_non_exhaustive()
    }
}

impl Agent {
    /// Opens the conversations, and goes on with turns that a crash cut off.
    ///
    /// # Errors
    /// [`AgentError::Store`]: the conversations can't be opened.
    pub async fn start(config: AgentConfig, models: Models, skills: Arc<dyn Skills>) -> Result<Self, AgentError> {
        let journal = Journal::open(&config.place, config.conversation_lifetime)?;
        let shared = Shared { config, journal, models, skills, shutdown: CancellationToken::new() };
        let agent = Self(Arc::new(Inner {
            delegates: Delegates::new(&shared)?,
            places: Pool::new(shared.config.max_turns),
            shared: Arc::new(shared),
            turns: Mutex::default(),
            secrets: Mutex::default(),
            locks: Locks::default(),
            memory: Pool::new(TURN_MEMORY_BYTES),
            secret_bytes: Pool::new(SECRET_BYTES),
            ending: Arc::default(),
        }));
        agent.recover().await?;
        Ok(agent)
    }

    /// Goes on with turns that nobody works on.
    pub(crate) async fn recover(&self) -> Result<(), AgentError> {
        for (principal, conversation) in self.journal().running().await? {
            tracing::info!(conversation, "a turn goes on after a restart");
            self.resume(&principal, &conversation, Return::Anyway).await?;
        }
        Ok(())
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.0.shared.journal
    }

    /// Takes a user's input. A new conversation begins if `conversation` is empty, with a message only.
    ///
    /// # Errors
    /// The input is refused, and nothing was changed.
    pub async fn send(&self, owner: &Owner, conversation: &str, input: Input) -> Result<Accepted, AgentError> {
        if self.0.shared.shutdown.is_cancelled() {
            return Err(AgentError::Shutdown);
        }
        match input {
            Input::Message(message) => self.begin(owner, conversation, message).await,
            _ if conversation.is_empty() => Err(AgentError::Invalid("conversation_id is missing".to_owned())),
            input => {
                let found = self.journal().get(&owner.principal, conversation).await?;
                // From here on, whatever ends the turn has a later number, and so comes with the events.
                if !matches!(found.state(), v1::ConversationState::Running | v1::ConversationState::Waiting) {
                    return Err(AgentError::NotWaiting);
                }
                let after = found.last_number;
                let events = self.feed(conversation, after).await?;
                self.steer(owner, conversation, input).await?;
                Ok(Accepted { conversation_id: conversation.to_owned(), after, events })
            }
        }
    }

    /// Runs a sub-agent to its answer, or until `cancel`. `progress` gets the ids of the skills that it calls.
    ///
    /// # Errors
    /// It can't begin, or did not end: then its calls may have had effects.
    pub async fn delegate(
        &self,
        task: Task,
        progress: mpsc::Sender<String>,
        cancel: CancellationToken,
    ) -> Result<Answer, AgentError> {
        self.0.delegates.run(task, progress, cancel).await
    }

    /// The events of a conversation after a number. `follow`: then new ones, until the conversation is deleted.
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
        let journal = self.journal();
        journal.get(principal, conversation).await?;
        if follow { self.feed(conversation, after).await } else { Ok(feed::kept(journal.clone(), conversation, after)) }
    }

    /// The conversations of a principal, the one used last first.
    ///
    /// # Errors
    /// [`AgentError::Invalid`]: the cursor; [`AgentError::Store`].
    pub async fn list(
        &self,
        principal: &str,
        request: v1::ListConversationsRequest,
    ) -> Result<v1::ListConversationsResponse, AgentError> {
        self.journal().list(principal, request.limit, &request.cursor).await
    }

    /// A conversation without its events.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub async fn get(&self, principal: &str, conversation: &str) -> Result<v1::Conversation, AgentError> {
        self.journal().get(principal, conversation).await
    }

    /// Deletes a conversation. A running turn is cancelled first.
    ///
    /// # Errors
    /// [`AgentError::NoConversation`], [`AgentError::Store`].
    pub async fn delete(&self, principal: &str, conversation: &str) -> Result<(), AgentError> {
        let _locked = self.0.locks.lock(conversation).await;
        self.journal().get(principal, conversation).await?;
        let running = self.turns().remove(conversation);
        if let Some(running) = running {
            running.turn.cancel();
            // It ends by writing what it leaves.
            let _ = running.task.await;
        }
        self.secrets().remove(conversation);
        self.journal().delete(principal, conversation).await
    }

    /// Takes no new turns, and stops those that run between two entries. They go on at the next start.
    pub async fn shutdown(&self) {
        self.0.shared.shutdown.cancel();
        let running: Vec<_> = self.turns().drain().map(|(_, running)| running).collect();
        for running in running {
            let _ = running.task.await;
        }
    }

    /// Begins a turn.
    async fn begin(&self, owner: &Owner, conversation: &str, message: v1::UserMessage) -> Result<Accepted, AgentError> {
        let principal = owner.principal.as_str();
        check_text("message.text", &message.text)?;
        let is_new = conversation.is_empty();
        let conversation = if is_new { new_id() } else { conversation.to_owned() };
        // A new one is locked before a list shows it: another message could begin a second turn.
        let _locked = self.0.locks.lock(&conversation).await;
        let bytes = if is_new { 0 } else { self.idle(principal, &conversation).await? };
        let room = self.room(principal, bytes)?;
        let mut state = if is_new { State::default() } else { self.journal().fold(&conversation, State::of).await? };
        let started = Started { credential: owner.credential.clone(), ..self.started(message, state.started())? };
        self.check_validity(owner)?;
        if is_new {
            self.journal().create_as(&conversation, principal).await?;
        }
        let after = state.next_number() - 1;
        let events = self.feed(&conversation, after).await?;
        let secrets = self.secrets_of(principal, &conversation);
        let entry = Entry::Started(started).without(&secrets);
        match self.journal().append(&conversation, vec![entry]).await {
            Ok(written) => written.into_iter().for_each(|it| state.apply(it)),
            Err(error) => {
                if is_new {
                    self.journal().delete(principal, &conversation).await?;
                }
                return Err(error);
            }
        }
        self.spawn(principal, &conversation, state, room, false);
        Ok(Accepted { conversation_id: conversation, after, events })
    }

    /// How many bytes a conversation has that no turn of runs or waits.
    async fn idle(&self, principal: &str, conversation: &str) -> Result<usize, AgentError> {
        let state = self.journal().get(principal, conversation).await?.state();
        if matches!(state, v1::ConversationState::Running | v1::ConversationState::Waiting) {
            return Err(AgentError::Busy);
        }
        self.journal().bytes(principal, conversation).await
    }

    /// # Errors
    /// [`AgentError::Revoked`].
    fn check_validity(&self, owner: &Owner) -> Result<(), AgentError> {
        if self.0.shared.skills.validity(owner) == Validity::Valid { Ok(()) } else { Err(AgentError::Revoked) }
    }

    /// Room for a turn of a conversation with so many bytes.
    fn room(&self, principal: &str, bytes: usize) -> Result<Room, AgentError> {
        let places = self.0.shared.config.max_turns;
        let place = self.0.places.take(principal, 1).ok_or(AgentError::TooManyTurns(places))?;
        let memory = self.0.memory.take(principal, turn_bytes(bytes)).ok_or(AgentError::Full(Bound::Memory))?;
        Ok(Room { place, memory, ending: None })
    }

    /// Room for a turn that comes back although there is none.
    async fn room_beyond(&self, principal: &str, bytes: usize, why: Return) -> Room {
        let ending = if why == Return::ToEnd { Some(Arc::clone(&self.0.ending).lock_owned().await) } else { None };
        let mut room = Room { place: self.0.places.share(principal), memory: self.0.memory.share(principal), ending };
        room.place.count(1);
        room.memory.count(turn_bytes(bytes));
        room
    }

    /// The beginning of a turn, with what the message leaves open resolved.
    fn started(&self, message: v1::UserMessage, last: Option<&Started>) -> Result<Started, AgentError> {
        let config = &self.0.shared.config;
        let wanted = if message.model.is_empty() { last.map_or("", |it| it.model.as_str()) } else { &message.model };
        // The model of an earlier turn may be gone; one that is asked for may not.
        let model = match self.0.shared.models.pick(wanted) {
            Err(error) if message.model.is_empty() => {
                tracing::debug!(%error, "the conversation's model is gone");
                self.0.shared.models.pick("").map_err(|error| AgentError::Invalid(error.to_string()))?
            }
            picked => picked.map_err(|error| AgentError::Invalid(error.to_string()))?,
        };
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
            trace_id: format!("{:032x}", rand::random::<u128>().max(1)),
            ..Started::default()
        })
    }

    /// Brings answers, a decision or a cancellation to the turn that waits for it.
    async fn steer(&self, owner: &Owner, conversation: &str, input: Input) -> Result<(), AgentError> {
        let principal = owner.principal.as_str();
        if input == Input::Cancel {
            self.check_validity(owner)?;
            return self.cancel(principal, conversation).await;
        }
        let turn = self.resume(principal, conversation, Return::ToWork).await?.ok_or(AgentError::NotWaiting)?;
        turn.check_sender(owner, input.permits()).await?;
        match input {
            Input::Answers(answers) => turn.answer(answers).await?,
            Input::Decision(decision) => turn.decide(decision).await?,
            Input::Message(_) | Input::Cancel => {}
        }
        // The turn may have left the memory meanwhile: what was written is not lost, but somebody has to go on.
        self.resume(principal, conversation, Return::Anyway).await?;
        Ok(())
    }

    /// Ends a turn, and returns when it has ended: by this, or by itself.
    async fn cancel(&self, principal: &str, conversation: &str) -> Result<(), AgentError> {
        // One that was about to leave the memory has to come back first.
        while let Some(turn) = self.resume(principal, conversation, Return::ToEnd).await? {
            turn.cancel();
            turn.left().await;
            if self.0.shared.shutdown.is_cancelled() {
                return Err(AgentError::Shutdown);
            }
            if let Some(error) = turn.failure() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// The turn of a conversation that has not ended, in memory again if it was not.
    async fn resume(&self, principal: &str, conversation: &str, why: Return) -> Result<Option<Arc<Turn>>, AgentError> {
        let _locked = self.0.locks.lock(conversation).await;
        let running = self.turns().get(conversation).map(|it| Arc::clone(&it.turn));
        if let Some(turn) = running.filter(|it| !it.is_retired()) {
            return Ok(Some(turn));
        }
        let bytes = self.journal().bytes(principal, conversation).await?;
        let room = match self.room(principal, bytes) {
            Err(_) if why != Return::ToWork => self.room_beyond(principal, bytes, why).await,
            room => room?,
        };
        let state = self.journal().fold(conversation, State::of).await?;
        if state.is_over() {
            return Ok(None);
        }
        Ok(Some(self.spawn(principal, conversation, state, room, true)))
    }

    fn spawn(&self, principal: &str, conversation: &str, state: State, room: Room, is_resumed: bool) -> Arc<Turn> {
        let secrets = self.secrets_of(principal, conversation);
        let (shared, id) = (Arc::clone(&self.0.shared), conversation.to_owned());
        let Room { place, memory, ending } = room;
        let turn = Arc::new(Turn::new(shared, id, (principal.to_owned(), None), secrets, (state, memory), is_resumed));
        let (runs, inner) = (Arc::clone(&turn), Arc::downgrade(&self.0));
        let task = tokio::spawn(async move {
            runs.run().await;
            drop(place);
            if let Some(inner) = inner.upgrade() {
                Self(inner).forget(&runs);
            }
            drop(runs);
            drop(ending);
        });
        self.turns().insert(conversation.to_owned(), Running { turn: Arc::clone(&turn), task });
        turn
    }

    /// Gives back what a turn takes that left the memory.
    fn forget(&self, turn: &Arc<Turn>) {
        let mut turns = self.turns();
        if turns.get(turn.conversation()).is_some_and(|it| Arc::ptr_eq(&it.turn, turn)) {
            turns.remove(turn.conversation());
        }
    }

    /// The secrets of a conversation. Those that nobody uses any more are dropped.
    fn secrets_of(&self, principal: &str, conversation: &str) -> Arc<Secrets> {
        let lifetime = self.0.shared.config.conversation_lifetime;
        let mut all = self.secrets();
        all.retain(|_, it| Arc::strong_count(it) > 1 || !it.is_idle(lifetime));
        let new = || Arc::new(Secrets::within_share(self.0.secret_bytes.share(principal)));
        Arc::clone(all.entry(conversation.to_owned()).or_insert_with(new))
    }

    async fn feed(&self, conversation: &str, after: u64) -> Result<Events, AgentError> {
        feed::follow(self.journal().clone(), conversation, after).await
    }

    /// How many turns are in memory.
    #[cfg(test)]
    pub(crate) fn turns_in_memory(&self) -> usize {
        self.turns().len()
    }

    fn turns(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.0.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn secrets(&self) -> MutexGuard<'_, HashMap<String, Arc<Secrets>>> {
        self.0.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
