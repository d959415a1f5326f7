//! What an agent does from time to time: it deletes conversations that nobody uses. In a shared store, it also renews
//! the leases of its turns, and continues turns of gateways that are gone.

use std::sync::Arc;
use std::time::{Duration, Instant};

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
                if may_take
                    && !agent.0.shared.shutdown.is_cancelled()
                    && let Err(error) = agent.recover().await
                {
                    tracing::warn!(%error, "turns of other gateways can't be resumed");
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

    /// Renews leases, and cancels turns whose users asked another gateway to.
    async fn renew(&self) -> Result<(), AgentError> {
        for held in self.journal().renew().await?.iter().filter(|it| it.cancel_requested) {
            if let Some(running) = self.0.turns.lock().get(&held.id) {
                running.turn.cancel.cancel();
            }
        }
        Ok(())
    }
}
