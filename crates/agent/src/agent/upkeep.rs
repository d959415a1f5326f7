//! What an agent does from time to time: it deletes conversations that nobody uses. In a shared store, it also renews
//! the leases of its turns, and continues turns of gateways that are gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use super::Agent;
use crate::error::AgentError;
use crate::journal::LEASE;

/// How often leases are renewed, and how often expired conversations are deleted.
const RENEWAL: Duration = Duration::from_secs(1);
const SWEEP: Duration = Duration::from_secs(600);

impl Agent {
    /// Starts the upkeep, which ends with the agent.
    pub(super) fn start_upkeep(&self) {
        let (inner, pause) = (Arc::downgrade(&self.0), if self.journal().is_shared() { RENEWAL } else { SWEEP });
        tokio::spawn(async move {
            let (mut renewing_since, mut swept) = (None, Instant::now());
            let mut recovery: Option<JoinHandle<()>> = None;
            loop {
                tokio::time::sleep(pause).await;
                let Some(agent) = inner.upgrade().map(Self) else { return };
                if agent.journal().is_shared() {
                    match agent.renew().await {
                        Ok(()) => drop(renewing_since.get_or_insert_with(Instant::now)),
                        Err(error) => {
                            tracing::warn!(%error, "leases of conversations can't be renewed");
                            renewing_since = None;
                        }
                    }
                }
                // After an outage, every gateway gets the time to renew its leases before another one takes its turns.
                let may_take = renewing_since.is_some_and(|it: Instant| it.elapsed() >= LEASE);
                let is_recovering = recovery.as_ref().is_some_and(|it| !it.is_finished());
                if may_take && !is_recovering && !agent.0.shared.shutdown.is_cancelled() {
                    // Apart, because leases must be renewed however long this takes.
                    recovery = Some(tokio::spawn(agent.clone().take_over()));
                }
                if swept.elapsed() >= SWEEP {
                    swept = Instant::now();
                    let lifetime = agent.0.shared.config.conversation_lifetime;
                    if let Err(error) = agent.journal().remove_unused(lifetime).await {
                        tracing::warn!(%error, "expired conversations could not be deleted");
                    }
                }
            }
        });
    }

    async fn take_over(self) {
        if let Err(error) = self.recover().await {
            tracing::warn!(%error, "turns of other gateways can't be resumed");
        }
    }

    /// Renews leases, and cancels turns whose users asked another gateway to. Releases conversations whose turns are not
    /// in memory any more.
    async fn renew(&self) -> Result<(), AgentError> {
        for held in self.journal().renew().await? {
            match self.0.turns.lock().get(&held.id) {
                Some(running) if held.cancel_requested => running.turn.cancel.cancel(),
                Some(_) => {}
                None => drop(tokio::spawn(self.clone().release_without_turn(held.id))),
            }
        }
        Ok(())
    }

    async fn release_without_turn(self, id: String) {
        // Whoever begins a turn holds this until the turn is in memory.
        let _lock = self.0.locks.lock(&id).await;
        let has_turn = self.0.turns.lock().contains_key(&id);
        if !has_turn {
            self.journal().release(&id).await;
        }
    }
}
