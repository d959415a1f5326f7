//! What gateways that share a database count together: the rates of principals, and the circuits of skills.
//!
//! ```text
//! calls ──> buckets and circuits of this gateway <── exchange, every 100 ms ──> Store <── other gateways
//! ```
//!
//! One task exchanges what was counted. Calls read and change only what is in memory, so they never wait for the store: each
//! gateway is at most one exchange late. While the store can't be reached, each gateway counts alone.
//!
//! - [`rates`]: charges tokens that were taken; [`circuits`]: adds calls, and decides together who opens and probes
//! - [`time`]: the store's time in this process

mod circuits;
mod rates;
mod time;

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_store::Store;
use openskill_store::engine::StoreError;

use crate::gateway::Gateway;
use circuits::CircuitExchange;

/// How often gateways exchange what they have counted.
const INTERVAL: Duration = Duration::from_millis(100);

/// An exchange that takes longer has failed.
const TIMEOUT: Duration = Duration::from_secs(2);

/// How often the store is tried again after that.
const RETRY: Duration = Duration::from_secs(1);

/// How often what is no longer used is removed from the store.
const UPKEEP: Duration = Duration::from_secs(60);

/// Exchanges counts until the future is dropped. Returns at once if no other gateway can use the store.
pub(crate) async fn run(gateway: Arc<Gateway>) {
    if !gateway.long_running.may_share() {
        return;
    }
    let store = loop {
        match gateway.long_running.shared_store() {
            Some(store) => break store.clone(),
            None => tokio::time::sleep(RETRY).await,
        }
    };
    let mut circuits = CircuitExchange::new(gateway.long_running.gateway_id());
    let mut upkeep_at = Instant::now() + UPKEEP;
    let mut is_attached = false;
    loop {
        if !is_attached {
            // Whatever was counted alone is over.
            discard(&gateway);
        }
        let outcome = tokio::time::timeout(TIMEOUT, exchange(&gateway, &store, &mut circuits)).await;
        let failure = match outcome {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(_) => Some("the store does not answer in time".to_owned()),
        };
        if let Some(reason) = &failure
            && is_attached
        {
            tracing::warn!(reason, "this gateway counts rates and failures alone until the store can be reached");
            circuits.detach(&gateway.circuits);
        }
        is_attached = failure.is_none();
        if is_attached && Instant::now() >= upkeep_at {
            upkeep_at = Instant::now() + UPKEEP;
            if let Err(error) = remove_unused(&store).await {
                tracing::warn!(%error, "old counts can't be removed from the store");
            }
        }
        tokio::time::sleep(if is_attached { INTERVAL } else { RETRY }).await;
    }
}

async fn exchange(gateway: &Gateway, store: &Store, circuits: &mut CircuitExchange) -> Result<(), StoreError> {
    circuits.exchange(&gateway.circuits, store).await?;
    match &gateway.registry {
        Some(registry) => rates::exchange(registry, store).await,
        None => Ok(()),
    }
}

fn discard(gateway: &Gateway) {
    gateway.circuits.take_uncounted(|_, _| true);
    if let Some(registry) = &gateway.registry {
        registry.take_spent();
    }
}

async fn remove_unused(store: &Store) -> Result<(), StoreError> {
    store.remove_unused_rates().await?;
    store.remove_old_circuits().await
}
