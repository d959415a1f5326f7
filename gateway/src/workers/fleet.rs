//! All workers of a gateway.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::ArcSwap;

use super::source::Endpoint;
use super::worker::{Presence, Worker};

/// All workers, by endpoint.
#[derive(Debug, Default)]
pub(crate) struct Fleet {
    members: ArcSwap<BTreeMap<Endpoint, Arc<Worker>>>,
}

impl Fleet {
    /// Replaces all workers.
    pub(crate) fn replace(&self, members: BTreeMap<Endpoint, Arc<Worker>>) {
        self.members.store(Arc::new(members));
    }

    pub(crate) fn all(&self) -> Vec<Arc<Worker>> {
        self.members.load().values().cloned().collect()
    }

    /// The number of workers that accept calls.
    pub(crate) fn up(&self) -> usize {
        self.members.load().values().filter(|worker| worker.is_up()).count()
    }

    /// All workers, by endpoint.
    pub(super) fn members(&self) -> Arc<BTreeMap<Endpoint, Arc<Worker>>> {
        self.members.load_full()
    }

    /// Returns the worker whose process has this id, if it accepts calls or only drains.
    pub(crate) fn by_instance(&self, instance: &str) -> Option<Arc<Worker>> {
        self.members.load().values().find(|worker| worker.is_instance(instance)).cloned()
    }

    /// Whether a worker process is present.
    pub(crate) fn presence(&self, instance: &str) -> Presence {
        let members = self.members.load();
        let Some(worker) = members.values().find(|worker| worker.is_instance(instance)) else {
            return Presence::Gone;
        };
        match worker.is_connected() {
            true if worker.is_serving() => Presence::Serving,
            false if !worker.is_given_up() => Presence::Away,
            // The worker is draining, an operator drained it, or it was lost too long ago.
            _ => Presence::Gone,
        }
    }

    /// Whether a connection attempt to each known worker has ended. False while no worker is known.
    pub(crate) fn were_tried(&self) -> bool {
        let members = self.members.load();
        !members.is_empty() && members.values().all(|worker| worker.was_tried())
    }

    /// The total concurrency limit of all workers that accept calls. None if no worker does.
    pub(crate) fn limit(&self) -> Option<usize> {
        let members = self.members.load();
        let limits = members.values().filter(|worker| worker.is_serving()).map(|worker| worker.record.limit() as usize);
        limits.fold(None, |sum, limit| Some(sum.unwrap_or(0) + limit))
    }

    /// The number of slots of all workers that accept calls.
    pub(crate) fn slots(&self) -> usize {
        let members = self.members.load();
        members.values().filter(|worker| worker.is_serving()).map(|worker| worker.record.capacity() as usize).sum()
    }

    /// Whether one more worker may be ejected: at most half of those that are up.
    pub(crate) fn may_eject(&self) -> bool {
        (self.ejected_count() + 1) * 2 <= self.up()
    }

    /// The number of workers that are up but currently ejected.
    pub(crate) fn ejected_count(&self) -> usize {
        let (members, now) = (self.members.load(), Instant::now());
        members.values().filter(|worker| worker.is_serving() && worker.record.ejection_reason(now).is_some()).count()
    }
}
