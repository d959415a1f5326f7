//! Gives the rest of a process access to its metrics. A process runs one gateway or one worker, and its metrics
//! exporter depends on neither.

use std::sync::Arc;

use parking_lot::RwLock;

use crate::metrics::snapshot::Snapshot;

type Source = Arc<dyn Fn() -> Option<Snapshot> + Send + Sync>;

static SOURCE: RwLock<Option<Source>> = RwLock::new(None);

/// Sets the function that takes snapshots of this process. Replaces the previous function. `take` returns `None`
/// once its gateway or worker is gone.
pub fn publish(take: impl Fn() -> Option<Snapshot> + Send + Sync + 'static) {
    *SOURCE.write() = Some(Arc::new(take));
}

/// Takes a snapshot of this process's metrics. Returns `None` before its gateway or worker is created and after it
/// is gone. May take milliseconds.
pub fn snapshot() -> Option<Snapshot> {
    let source = SOURCE.read().clone()?;
    source()
}
