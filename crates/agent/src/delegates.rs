//! Runs sub-agents: turns without a user. Their conversations are kept in memory and deleted when they end.

use std::sync::Arc;
use std::time::Duration;

use openskill_identity::shares::Pool;
use openskill_proto::v1::chat_event::Event;
use openskill_store::Location;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::config::AgentConfig;
use crate::delegation::{SubAgentResult, SubAgentTask};
use crate::entry::{Entry, Started};
use crate::error::{AgentError, Bound, check_text};
use crate::journal::{Journal, WatchEvent};
use crate::skills::Caller;
use crate::turn::{AgentResources, State, TURN_MEMORY_BYTES, Turn, TurnOrigin, turn_bytes};

pub(crate) struct Delegates {
    shared: Arc<AgentResources>,
    /// Limits concurrent sub-agents to the maximum number of turns. Principals share the slots fairly.
    slots: Pool,
    memory: Pool,
}

impl Delegates {
    /// Creates the runner. Sub-agents share the models and skills of `agent`. They continue after the agent's
    /// shutdown until their callers stop them.
    pub(crate) fn new(agent: &AgentResources) -> Self {
        let config = AgentConfig { store: Location::Memory, ..agent.config.clone() };
        let shared = AgentResources {
            journal: Journal::new(Location::Memory, None),
            models: agent.models.clone(),
            skills: Arc::clone(&agent.skills),
            shutdown: CancellationToken::new(),
            config,
        };
        let (slots, memory) = (Pool::new(shared.config.max_turns), Pool::new(TURN_MEMORY_BYTES));
        Self { slots, memory, shared: Arc::new(shared) }
    }

    /// Runs a sub-agent until it answers or `cancel` is triggered.
    pub(crate) async fn run(
        &self,
        task: SubAgentTask,
        progress: mpsc::Sender<String>,
        cancel: CancellationToken,
    ) -> Result<SubAgentResult, AgentError> {
        let AgentResources { config, journal, models, .. } = self.shared.as_ref();
        let (caller, time) = (task.caller.clone(), task.time);
        let slot = self.slots.take(caller.owner.principal.as_str(), 1);
        let _slot = slot.ok_or(AgentError::TooManyTurns(config.max_turns))?;
        let started = task.into_started(config, models).map_err(AgentError::Invalid)?;
        check_text("the task", &started.text)?;
        let id = journal.create(&caller.owner.principal).await?;
        let answer = tokio::select! {
            answer = self.run_turn(&id, &caller, started, time, progress) => answer,
            () = cancel.cancelled() => Err(AgentError::Shutdown),
        };
        if let Err(error) = journal.delete(&caller.owner.principal, &id).await {
            tracing::warn!(%error, "a sub-agent's conversation could not be deleted: it stays in memory until it expires");
        }
        answer
    }

    /// Runs the turn. Dropping the future cancels the running calls and prevents new ones.
    async fn run_turn(
        &self,
        id: &str,
        caller: &Caller,
        started: Started,
        time: Duration,
        progress: mpsc::Sender<String>,
    ) -> Result<SubAgentResult, AgentError> {
        let until = Instant::now() + time;
        let journal = &self.shared.journal;
        let mut events = journal.watch(id);
        let memory =
            self.memory.take(caller.owner.principal.as_str(), turn_bytes(0)).ok_or(AgentError::Full(Bound::Memory))?;
        let state = State::from_entries(journal.append_at(id, 1, vec![Entry::Started(started)]).await?);
        let origin = TurnOrigin { principal: caller.owner.principal.clone(), parent: caller.parent };
        let turn = Turn::new(Arc::clone(&self.shared), id.to_owned(), origin, Arc::default(), state, memory, false);
        let watching = async {
            loop {
                match events.recv().await {
                    Ok(WatchEvent::Event(event)) => {
                        if let Some(Event::ToolCall(call)) = event.event {
                            drop(progress.try_send(call.skill_id));
                        }
                    }
                    // A lagging watcher misses some progress events.
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return std::future::pending().await,
                }
            }
        };
        let running = async {
            tokio::select! { () = turn.run() => {}, () = watching => {} }
        };
        let is_late = tokio::time::timeout_at(until, running).await.is_err();
        let (used, is_tainted) = turn.usage_and_taint();
        match turn.end_entry() {
            // The turn stopped without an end entry, because the log could not be written.
            None if !is_late => Err(AgentError::Shutdown),
            ended => Ok(SubAgentResult { ended, used, is_tainted }),
        }
    }
}
