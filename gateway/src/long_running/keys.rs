//! Where idempotency keys are stored, and the upkeep of those in the store.

use std::sync::Arc;
use std::time::Duration;

use openskill_proto::v1::{Blame, SkillError};
use openskill_store::engine::StoreError;
use openskill_store::{Location, Store};
use tokio::time::{Instant, sleep, timeout};

use super::LongRunning;
use crate::gateway::Gateway;

/// How often leases are renewed while calls with keys run.
const RENEWAL: Duration = Duration::from_secs(1);

/// How often expired keys are removed while calls with keys run, and otherwise.
const SWEEP: Duration = Duration::from_secs(10);
const IDLE_SWEEP: Duration = Duration::from_secs(60);

impl LongRunning {
    /// Returns the store of idempotency keys. None if this gateway keeps them in its own memory: it has no store that
    /// outlives it, or only the default file, which can't be opened.
    ///
    /// # Errors
    /// The store can't be used now.
    pub(crate) fn key_store(&self) -> Result<Option<&Store>, SkillError> {
        match (&self.config.store, self.store.get()) {
            (None | Some(Location::Memory), _) => Ok(None),
            (_, Some(store)) => Ok(Some(store)),
            (_, None) if self.config.is_default => Ok(None),
            (_, None) => {
                let message = format!("idempotency keys can't be used now: {}", self.reason.lock());
                Err(SkillError::unavailable(message).with_blame(Blame::Gateway))
            }
        }
    }
}

/// Renews the leases of keys whose calls run here, and removes expired keys, until it is dropped.
pub(crate) async fn maintain(gateway: Arc<Gateway>) {
    let keys = &gateway.keys.stored;
    let mut sweep_at = Instant::now();
    loop {
        if keys.is_idle() {
            // Ends with a claim, whose lease is new, or in time for the next sweep.
            let _ = timeout(IDLE_SWEEP, keys.wait_for_claim()).await;
        }
        sleep(RENEWAL).await;
        let Ok(Some(store)) = gateway.long_running.key_store() else { continue };
        let upkeep = async {
            // Alone, the gateway itself tells whether it lives.
            if store.is_shared() && !keys.is_idle() {
                keys.renew(store).await?;
            }
            if Instant::now() >= sweep_at {
                keys.sweep(store).await?;
                sweep_at = Instant::now() + SWEEP;
            }
            Ok::<_, StoreError>(())
        };
        if let Err(error) = upkeep.await {
            tracing::warn!(%error, "idempotency keys can't be looked after");
        }
    }
}
