//! The workers a gateway knows: who they are, what they have, how busy they are.
//!
//! - [`source`]: where workers are looked for
//! - [`discovery`]: finding them, and following each one's state
//! - [`link`]: the connection to one
//! - [`pick`]: choosing one for a call
//! - [`attempt`]: one call at one worker

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use openskill_proto::v1::{WorkerInfo, WorkerState, WorkerStatus};

pub(crate) mod attempt;
pub(crate) mod discovery;
pub(crate) mod link;
pub(crate) mod pick;
pub(crate) mod source;

use link::Link;
use source::Endpoint;

/// A worker at an endpoint, up or not.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) endpoint: Endpoint,
    /// What it last said of itself; none while it is down.
    state: ArcSwapOption<WorkerState>,
    /// Why it is down.
    reason: ArcSwap<String>,
    /// Taken out by hand.
    held: AtomicBool,
    /// Calls this gateway has running there.
    in_flight: AtomicU32,
    /// A connection for each shard, and one more for following its state.
    links: Box<[Arc<Link>]>,
}

/// A call that counts as running at a worker until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<Worker>);

impl Worker {
    fn new(endpoint: Endpoint, shards: usize) -> Self {
        let links = (0..=shards).map(|_| Arc::new(Link::new(endpoint.clone()))).collect();
        let reason = ArcSwap::from_pointee("not reached yet".to_owned());
        let (state, held, in_flight) = Default::default();
        Self { endpoint, state, reason, held, in_flight, links }
    }

    /// What it has, if it takes calls.
    pub(crate) fn serving(&self) -> Option<Arc<WorkerState>> {
        let open = |state: &Arc<WorkerState>| !state.draining && !self.held.load(Ordering::Relaxed);
        self.state.load_full().filter(open)
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(Arc::clone(self))
    }

    pub(crate) fn id(&self) -> String {
        self.state.load().as_ref().map(|state| state.worker_id.clone()).unwrap_or_default()
    }

    pub(crate) fn link(&self, shard: usize) -> &Arc<Link> {
        &self.links[shard]
    }

    /// The link that no shard uses.
    fn control_link(&self) -> &Arc<Link> {
        &self.links[self.links.len() - 1]
    }

    pub(crate) fn hold(&self, held: bool) {
        self.held.store(held, Ordering::Relaxed);
    }

    /// The worker as an operator sees it.
    pub(crate) fn info(&self) -> WorkerInfo {
        let state = self.state.load_full();
        let status = match &state {
            None => WorkerStatus::Down,
            Some(_) if self.serving().is_none() => WorkerStatus::Draining,
            Some(_) => WorkerStatus::Up,
        };
        let reason = if status == WorkerStatus::Down { self.reason.load().to_string() } else { String::new() };
        let state = state.as_deref().cloned().unwrap_or_default();
        WorkerInfo {
            worker_id: state.worker_id,
            endpoint: self.endpoint.to_string(),
            status: status.into(),
            in_flight: self.in_flight(),
            capacity: state.capacity,
            skills: state.skills.len() as u32,
            version: state.version,
            reason,
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All workers, by endpoint.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    members: ArcSwap<BTreeMap<Endpoint, Arc<Worker>>>,
}

impl Workers {
    pub(crate) fn all(&self) -> Vec<Arc<Worker>> {
        self.members.load().values().cloned().collect()
    }

    /// How many take calls.
    pub(crate) fn up(&self) -> usize {
        self.members.load().values().filter(|worker| worker.serving().is_some()).count()
    }
}
