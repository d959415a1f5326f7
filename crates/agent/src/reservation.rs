//! Limits the number of turns in memory and their memory use. Principals share both fairly.

use std::sync::Arc;

use openskill_identity::shares::{Pool, Share};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::error::{AgentError, Bound};
use crate::turn::{TURN_MEMORY_BYTES, turn_bytes};

/// The limits on turns in memory.
pub(crate) struct TurnReservations {
    slots: Pool,
    memory: Pool,
    /// Locked by the single turn that has resumed beyond the limits in order to end.
    ending: Arc<AsyncMutex<()>>,
}

/// The share of the limits used by a turn in memory.
pub(crate) struct TurnReservation {
    pub(crate) slot: Share,
    pub(crate) memory: Share,
    /// Set if the turn has resumed beyond the limits in order to end.
    pub(crate) ending: Option<OwnedMutexGuard<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumeReason {
    /// Resume to continue working. Rejected if a limit is reached.
    ToWork,
    /// Resume regardless of the limits, because the turn was in memory a moment ago or when the process ended.
    Anyway,
    /// Resume to end. If the limits are reached, such turns resume one at a time.
    ToEnd,
}

impl TurnReservations {
    /// Creates limits for at most `max_turns` turns.
    pub(crate) fn new(max_turns: usize) -> Self {
        Self { slots: Pool::new(max_turns), memory: Pool::new(TURN_MEMORY_BYTES), ending: Arc::default() }
    }

    /// Reserves a slot and memory for the turn of a conversation with a size of `bytes`.
    pub(crate) fn reserve(&self, principal: &str, bytes: usize) -> Result<TurnReservation, AgentError> {
        let slot = self.slots.take(principal, 1).ok_or(AgentError::TooManyTurns(self.slots.limit()))?;
        let memory = self.memory.take(principal, turn_bytes(bytes)).ok_or(AgentError::Full(Bound::Memory))?;
        Ok(TurnReservation { slot, memory, ending: None })
    }

    /// Reserves a slot and memory regardless of the limits.
    pub(crate) async fn reserve_beyond_limits(
        &self,
        principal: &str,
        bytes: usize,
        why: ResumeReason,
    ) -> TurnReservation {
        let ending = if why == ResumeReason::ToEnd { Some(Arc::clone(&self.ending).lock_owned().await) } else { None };
        let mut reservation =
            TurnReservation { slot: self.slots.share(principal), memory: self.memory.share(principal), ending };
        reservation.slot.count(1);
        reservation.memory.count(turn_bytes(bytes));
        reservation
    }
}
