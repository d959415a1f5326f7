//! Opens the store, and runs what is in it: claims operations when it is their turn, and renews the leases of those that
//! run here.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use openskill_proto::v1::OperationRun;
use openskill_store::engine::StoreError;
use openskill_store::operations::Fence;
use openskill_store::{Location, Store};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::run::run;
use super::{LongRunning, POLL};
use crate::call::claim::CallClaim;
use crate::dispatch::kept_run;
use crate::gateway::{Gateway, Shard};

/// How long a gateway that is gone holds its operations in a shared store.
const LEASE: Duration = Duration::from_secs(10);
pub(super) const LEASE_MS: i64 = LEASE.as_millis() as i64;

/// How often leases are renewed, and the queue is looked after.
const UPKEEP: Duration = Duration::from_secs(1);

/// The same while nothing waits or runs, in a store that no other gateway uses. What expires may be kept that much longer.
const IDLE_UPKEEP: Duration = Duration::from_secs(60);

/// How often a store is opened again that can't be reached.
const REOPEN: Duration = Duration::from_secs(1);

/// How many operations the store schedules and removes at once, and how often that is repeated in one look.
const ROUND: usize = 100;
const MAX_ROUNDS: usize = 50;

/// How many operations are claimed at once.
const MAX_CLAIM: usize = 16;

/// Opens the store. Without a configured one, only tasks are kept, in memory.
///
/// # Errors
/// It can't be used as it is. A store that can't be reached now is not an error: [`execute`] opens it later.
pub(crate) async fn open(gateway: &Gateway) -> Result<(), StoreError> {
    let own = &gateway.long_running;
    let location = location(own);
    match try_open(gateway, location).await {
        Err(error @ StoreError::Unavailable(_)) if matches!(location, Location::Postgres(_)) => {
            tracing::warn!(%error, "operations are unavailable until the store can be reached");
            Ok(())
        }
        Err(error) if own.config.is_default => {
            tracing::warn!(%error, "operations are unavailable");
            Ok(())
        }
        opened => opened,
    }
}

fn location(own: &LongRunning) -> &Location {
    own.config.store.as_ref().unwrap_or(&Location::Memory)
}

async fn try_open(gateway: &Gateway, location: &Location) -> Result<(), StoreError> {
    let own = &gateway.long_running;
    let opened = async {
        let mut store = Store::open(location).await?.observed_by(Arc::clone(&gateway.observer) as _);
        // What is in memory ends with this process, and so must its results.
        if let Some(folder) = own.config.blobs.as_ref().filter(|_| *location != Location::Memory) {
            store = store.with_blob_folder(folder)?;
        }
        if !store.is_shared() {
            // Before the first claim: whatever held operations before is gone.
            store.recover().await?;
        }
        Ok(store)
    };
    match opened.await {
        Ok(store) => {
            let _ = own.store.set(store);
            Ok(())
        }
        Err(error) => {
            *own.reason.lock() = match &error {
                StoreError::Locked(_) => "another gateway uses the store".to_owned(),
                _ => "the store can't be opened; the log has the reason".to_owned(),
            };
            Err(error)
        }
    }
}

/// Runs operations until `stop`. Then keeps the leases of those that still run until they end, for at most `limit`. The
/// calls that are left end, and the store knows that they ran.
pub(crate) async fn execute(shard: Shard, stop: CancellationToken, limit: Duration) {
    let mut running = JoinSet::new();
    let _ = stop.run_until_cancelled(claim_and_run(&shard, &mut running)).await;
    let drain = async {
        // Calls that became operations run elsewhere in this process.
        while !running.is_empty() || !shard.gateway.long_running.claimed.lock().is_empty() {
            if let Err(error) = look_after(&shard).await {
                tracing::warn!(%error, "leases of operations can't be renewed");
            }
            tokio::select! {
                Some(_) = running.join_next() => {}
                () = tokio::time::sleep(UPKEEP) => {}
            }
        }
    };
    let _ = tokio::time::timeout(limit, drain).await;
}

async fn claim_and_run(shard: &Shard, running: &mut JoinSet<()>) {
    let own = Arc::clone(&shard.gateway.long_running);
    while own.store.get().is_none() {
        tokio::time::sleep(REOPEN).await;
        if let Err(error) = try_open(&shard.gateway, location(&own)).await {
            tracing::debug!(%error, "the store can't be opened yet");
        }
    }
    let mut upkeep_at = Instant::now();
    loop {
        if Instant::now() >= upkeep_at {
            if let Err(error) = look_after(shard).await {
                tracing::warn!(%error, "the queue of operations can't be looked after");
            }
            upkeep_at = Instant::now() + UPKEEP;
        }
        while running.try_join_next().is_some() {}
        let claimed = claim(shard, running).await;
        if claimed == MAX_CLAIM {
            continue;
        }
        let is_idle = running.is_empty() && claimed == 0 && own.has_nothing_to_do();
        let next = if is_idle { Instant::now() + IDLE_UPKEEP } else { upkeep_at.min(Instant::now() + POLL) };
        tokio::select! {
            () = own.submitted.notified() => {}
            () = tokio::time::sleep_until(next) => {}
            Some(_) = running.join_next() => {}
        }
    }
}

/// Starts operations whose turn it is, if there is room. Returns how many.
async fn claim(shard: &Shard, running: &mut JoinSet<()>) -> usize {
    let (gateway, own) = (&shard.gateway, &shard.gateway.long_running);
    let Ok(store) = own.store() else { return 0 };
    // Not more than start at once: what waits at a worker counts as started, and spends its time.
    let most = own.config.max_running.min(gateway.fleet.slots());
    let room = most.saturating_sub(running.len()).min(MAX_CLAIM);
    // Without workers, all would come back at once.
    if room == 0 || !gateway.is_ready() {
        return 0;
    }
    match store.claim(&own.gateway, LEASE_MS, room).await {
        Ok(claims) => {
            let count = claims.len();
            own.claimed.lock().extend(claims.iter().map(|it| (it.operation.id.clone(), it.epoch)));
            for claim in claims {
                running.spawn(run(shard.clone(), claim));
            }
            count
        }
        Err(error) => {
            tracing::warn!(%error, "operations can't be claimed");
            0
        }
    }
}

/// Renews leases, cancels calls whose operations were cancelled or lost, and frees, schedules, counts and removes
/// operations.
async fn look_after(shard: &Shard) -> Result<(), StoreError> {
    let (gateway, own) = (&shard.gateway, &shard.gateway.long_running);
    let Some(store) = own.store.get() else { return Ok(()) };
    let before: Vec<_> = own.running.lock().keys().cloned().collect();
    let held = match store.renew(&own.gateway, LEASE_MS).await {
        Ok(held) => held,
        Err(error) => {
            *own.renewing_since.lock() = None;
            return Err(error);
        }
    };
    for lost in &held {
        // Its claim or its end was not confirmed.
        if !own.claimed.lock().contains(&(lost.id.clone(), lost.epoch)) {
            store.release(Fence { id: &lost.id, epoch: lost.epoch }).await?;
        }
    }
    let held: HashMap<_, _> = held.into_iter().map(|it| (it.id.clone(), it)).collect();
    for id in &before {
        // What ended in the meantime is neither held nor running.
        let Some(call) = own.running.lock().get(id).cloned() else { continue };
        let cancel_requested = held.get(id).filter(|it| call.has_epoch(it.epoch)).map(|it| it.cancel_requested);
        if cancel_requested.is_none() {
            gateway.observer.metrics.leases_lost.inc();
            call.claim.iter().for_each(CallClaim::lose);
        }
        if cancel_requested.unwrap_or(true) {
            call.cancellation.notify_one();
        }
    }
    let cancelled = std::mem::take(&mut *own.cancelled.lock());
    for operation_id in cancelled {
        // The operation has ended, so no later run is cancelled.
        kept_run::cancel_everywhere(shard, &OperationRun { operation_id, epoch: u64::MAX });
    }
    let renewing_since = *own.renewing_since.lock().get_or_insert_with(Instant::now);
    // After an outage, every gateway gets the time to renew its leases before another one takes its operations.
    if store.is_shared() && renewing_since.elapsed() >= LEASE {
        store.recover().await?;
    }
    for _ in 0..MAX_ROUNDS {
        let (promoted, pruned) = (store.promote().await?, store.prune().await?);
        if promoted.max(pruned) < ROUND {
            break;
        }
    }
    if let Err(error) = own.retention.enforce(store).await {
        tracing::warn!(%error, "results can't be removed");
    }
    let waiting = store.waiting().await?;
    own.oldest_ms.store(waiting.iter().map(|it| it.oldest_ms).min().unwrap_or(i64::MAX), Ordering::Relaxed);
    let counts = waiting.into_iter().map(|it| (it.principal, usize::try_from(it.count).unwrap_or_default()));
    *own.waiting.lock() = counts.collect();
    Ok(())
}
