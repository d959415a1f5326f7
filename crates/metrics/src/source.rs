//! Where the rest of a process finds its metrics. A process runs one gateway or one worker, and whoever exports its metrics
//! knows neither.

use std::sync::{Arc, PoisonError, RwLock};

use crate::snapshot::Snapshot;

type Source = Arc<dyn Fn() -> Option<Snapshot> + Send + Sync>;

static SOURCE: RwLock<Option<Source>> = RwLock::new(None);

/// Sets what takes the snapshots of this process. It replaces the one before. `take` returns none once its gateway or
/// worker is gone.
pub fn publish(take: impl Fn() -> Option<Snapshot> + Send + Sync + 'static) {
    *SOURCE.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(take));
}

/// The metrics of this process now; none before its gateway or worker was made, and after its end. May take milliseconds.
pub fn snapshot() -> Option<Snapshot> {
    let source = SOURCE.read().unwrap_or_else(PoisonError::into_inner).clone()?;
    source()
}
