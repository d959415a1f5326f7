//! Removes what the store should not keep any longer: the oldest results if they are too large, and what nothing names.

use std::time::Duration;

use openskill_store::Store;
use openskill_store::engine::StoreError;
use parking_lot::Mutex;
use tokio::time::Instant;

/// How often it is looked at, at most.
const INTERVAL: Duration = Duration::from_secs(10);

/// The part of the time that this may take, as its inverse: a store with many operations is looked at less often.
const MAX_PART: u32 = 100;

/// How often more is removed in one look.
const MAX_ROUNDS: usize = 50;

/// When to look next.
#[derive(Debug)]
pub(super) struct Retention {
    keep_bytes: i64,
    next: Mutex<Instant>,
}

impl Retention {
    pub(super) fn new(keep_bytes: u64) -> Self {
        Self { keep_bytes: i64::try_from(keep_bytes).unwrap_or(i64::MAX), next: Mutex::new(Instant::now()) }
    }

    /// Removes operations and blobs if it is time.
    ///
    /// # Errors
    /// The store failed.
    pub(super) async fn enforce(&self, store: &Store) -> Result<(), StoreError> {
        let begun = Instant::now();
        if begun < *self.next.lock() {
            return Ok(());
        }
        *self.next.lock() = begun + INTERVAL;
        let removed = store.trim(self.keep_bytes).await?;
        if removed > 0 {
            tracing::info!(removed, "removed the oldest operations: OPENSKILL_OPERATIONS_KEEP_BYTES is reached");
        }
        for _ in 0..MAX_ROUNDS {
            if store.sweep_blobs().await? == 0 {
                break;
            }
        }
        *self.next.lock() = Instant::now() + INTERVAL.max(begun.elapsed() * MAX_PART);
        Ok(())
    }
}
