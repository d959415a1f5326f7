//! Sub-agents that run: turns without a user. Their conversations are in memory, and end with them.

use std::sync::Arc;
use std::time::Duration;

use openskill_identity::shares::Pool;
use openskill_proto::v1::chat_event::Event;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::{AgentConfig, Place};
use crate::delegation::{Answer, Task};
use crate::entry::{Entry, Started};
use crate::error::{AgentError, Bound, check_text};
use crate::journal::{Journal, Seen};
use crate::skills::Caller;
use crate::turn::{Shared, State, TURN_MEMORY_BYTES, Turn, turn_bytes};

/// The sub-agents of an agent.
#[derive(Debug)]
pub(crate) struct Delegates {
    shared: Arc<Shared>,
    /// As many as turns of conversations, shared among principals.
    places: Pool,
    memory: Pool,
}

impl Delegates {
    /// None yet. They have the models and the skills of the agent's own turns, and outlast its shutdown: whoever calls one
    /// ends it.
    pub(crate) fn new(agent: &Shared) -> Result<Self, AgentError> {
        let config = AgentConfig { place: Place::Memory, ..agent.config.clone() };
        let shared = Shared {
            journal: Journal::open(&config.place, config.conversation_lifetime)?,
            models: agent.models.clone(),
            skills: Arc::clone(&agent.skills),
            shutdown: CancellationToken::new(),
            config,
        };
        let (places, memory) = (Pool::new(shared.config.max_turns), Pool::new(TURN_MEMORY_BYTES));
        Ok(Self { places, memory, shared: Arc::new(shared) })
    }

    /// Runs one to its answer, or until `cancel`.
    pub(crate) async fn run(
        &self,
        task: Task,
        progress: mpsc::Sender<String>,
        cancel: CancellationToken,
    ) -> Result<Answer, AgentError> {
        let Shared { config, journal, models, .. } = self.shared.as_ref();
        let (caller, time) = (task.caller.clone(), task.time);
        let place = self.places.take(caller.owner.principal.as_str(), 1);
        let _place = place.ok_or(AgentError::TooManyTurns(config.max_turns))?;
        let started = task.started(config, models).map_err(AgentError::Invalid)?;
        check_text("the task", &started.text)?;
        let id = journal.create(&caller.owner.principal).await?;
        let answer = tokio::select! {
            answer = self.turn(&id, &caller, (started, time), progress) => answer,
            () = cancel.cancelled() => Err(AgentError::Shutdown),
        };
        if let Err(error) = journal.delete(&caller.owner.principal, &id).await {
            tracing::warn!(%error, "the conversation of a sub-agent stays in memory until it expires");
        }
        answer
    }

    /// Dropped, it starts nothing more, and what it called is cancelled.
    async fn turn(
        &self,
        id: &str,
        caller: &Caller,
        (started, time): (Started, Duration),
        progress: mpsc::Sender<String>,
    ) -> Result<Answer, AgentError> {
        let until = Instant::now() + time;
        let journal = &self.shared.journal;
        let mut events = journal.watch(id);
        let memory =
            self.memory.take(caller.owner.principal.as_str(), turn_bytes(0)).ok_or(AgentError::Full(Bound::Memory))?;
        let state = State::of(journal.append(id, vec![Entry::Started(started)]).await?);
        let origin = (caller.owner.principal.clone(), caller.parent);
        let turn = Turn::new(Arc::clone(&self.shared), id.to_owned(), origin, Arc::default(), (state, memory), false);
        let running = async {
            let running = turn.run();
            tokio::pin!(running);
            let mut is_watched = true;
            loop {
                tokio::select! {
                    () = &mut running => return,
                    event = events.recv(), if is_watched => match event {
                        Ok(Seen::Event(event)) => {
                            if let Some(Event::ToolCall(call)) = event.event {
                                drop(progress.try_send(call.skill_id));
                            }
                        }
                        // One that lags misses some.
                        Ok(_) | Err(RecvError::Lagged(_)) => {}
                        Err(RecvError::Closed) => is_watched = false,
                    },
                }
            }
        };
        let is_late = tokio::time::timeout_at(until, running).await.is_err();
        let (used, is_tainted) = turn.used();
        match turn.ended() {
            // The log could not be written.
            None if !is_late => Err(AgentError::Shutdown),
            ended => Ok(Answer { ended, used, is_tainted }),
        }
    }
}
