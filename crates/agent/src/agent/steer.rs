//! Brings inputs to the turn of a conversation, which it loads into memory if necessary.

use std::sync::Arc;
use std::time::Duration;

use openskill_proto::v1;

use super::Agent;
use crate::error::AgentError;
use crate::input::{Input, permits};
use crate::reservation::ResumeReason;
use crate::skills::UserIdentity;
use crate::turn::{State, Turn, TurnOrigin};

/// How often it is checked whether another gateway has cancelled a turn, and how many times.
const CANCEL_POLL: Duration = Duration::from_millis(500);
const CANCEL_POLLS: usize = 20;

impl Agent {
    /// Delivers answers, a decision or a cancellation to the waiting turn.
    pub(super) async fn steer(&self, owner: &UserIdentity, conversation: &str, input: Input) -> Result<(), AgentError> {
        let principal = owner.principal.as_str();
        if matches!(input, Input::Cancel(_)) {
            self.check_validity(owner)?;
            return self.cancel(principal, conversation).await;
        }
        let turn = self.resume(principal, conversation, ResumeReason::ToWork).await?.ok_or(AgentError::NotWaiting)?;
        turn.check_sender(owner, permits(&input)).await?;
        match input {
            Input::Answers(answers) => turn.answer(answers).await?,
            Input::Decision(decision) => turn.decide(decision).await?,
            Input::Message(_) | Input::Cancel(_) => {}
        }
        // The turn may have been unloaded in the meantime. The input is in the log, so resume the turn in any
        // case.
        self.resume(principal, conversation, ResumeReason::Anyway).await?;
        Ok(())
    }

    /// Cancels a turn and waits until it has ended. It may also end for another reason first.
    async fn cancel(&self, principal: &str, conversation: &str) -> Result<(), AgentError> {
        match self.cancel_here(principal, conversation).await {
            Err(AgentError::Elsewhere) => self.cancel_elsewhere(principal, conversation).await,
            cancelled => cancelled,
        }
    }

    async fn cancel_here(&self, principal: &str, conversation: &str) -> Result<(), AgentError> {
        // A turn that is about to be unloaded has to resume first.
        while let Some(turn) = self.resume(principal, conversation, ResumeReason::ToEnd).await? {
            turn.cancel.cancel();
            turn.wait_until_stopped().await;
            if self.0.shared.shutdown.is_cancelled() {
                return Err(AgentError::Shutdown);
            }
            if let Some(error) = turn.failure() {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Returns the turn of a conversation, and loads it into memory if necessary. Returns `None` if the turn has
    /// ended.
    pub(super) async fn resume(
        &self,
        principal: &str,
        conversation: &str,
        why: ResumeReason,
    ) -> Result<Option<Arc<Turn>>, AgentError> {
        let _locked = self.0.locks.lock(conversation).await;
        let running = self.0.turns.lock().get(conversation).map(|it| Arc::clone(&it.turn));
        if let Some(turn) = running.filter(|it| !it.is_retired()) {
            if !self.journal().is_shared() || self.journal().is_own(conversation).await? {
                return Ok(Some(turn));
            }
            turn.abandon().await;
        }
        let bytes = self.journal().bytes(principal, conversation).await?;
        let reservation = match self.0.reservations.reserve(principal, bytes) {
            Err(_) if why != ResumeReason::ToWork => {
                self.0.reservations.reserve_beyond_limits(principal, bytes, why).await
            }
            reservation => reservation?,
        };
        if self.journal().is_shared() && !self.journal().claim(conversation).await? {
            let state = self.journal().get(principal, conversation).await?.state();
            let is_open = matches!(state, v1::ConversationState::Running | v1::ConversationState::Waiting);
            return if is_open { Err(AgentError::Elsewhere) } else { Ok(None) };
        }
        let state = match self.journal().fold(conversation, State::from_entries).await {
            Ok(state) => state,
            Err(error) => {
                self.journal().release(conversation).await;
                return Err(error);
            }
        };
        if state.is_over() {
            return Ok(None);
        }
        let origin = TurnOrigin { principal: principal.to_owned(), parent: None };
        Ok(Some(self.spawn(origin, conversation, state, reservation, true)))
    }

    /// Lets the gateway that runs a turn cancel it, and waits until it has ended.
    async fn cancel_elsewhere(&self, principal: &str, conversation: &str) -> Result<(), AgentError> {
        self.journal().request_cancel(conversation).await?;
        for _ in 0..CANCEL_POLLS {
            let state = self.journal().get(principal, conversation).await?.state();
            if !matches!(state, v1::ConversationState::Running | v1::ConversationState::Waiting) {
                return Ok(());
            }
            tokio::time::sleep(CANCEL_POLL).await;
        }
        Err(AgentError::Elsewhere)
    }
}
