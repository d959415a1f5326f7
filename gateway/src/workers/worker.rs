//! One worker, whether up or down.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use openskill_net::tls::client::Connector;
use openskill_proto::limits::{MAX_REFUSAL_BYTES, MAX_REFUSED_FILES};
use openskill_proto::v1::{RefusedFile, SkillStatus, WorkerInfo, WorkerState, WorkerStatus};
use parking_lot::Mutex;

use super::client::Client;
use super::latency::Latency;
use super::link::Link;
use super::record::Record;
use super::source::Endpoint;

/// How long a lost worker may take to return as the same process.
const GIVEN_UP: Duration = Duration::from_secs(2);

/// A worker at an endpoint, whether up or down.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) endpoint: Endpoint,
    /// The endpoint as text.
    pub(crate) address: Arc<str>,
    /// Its last report. None while it is down.
    state: ArcSwapOption<WorkerState>,
    /// The reason why it is down.
    reason: ArcSwap<String>,
    /// The last known id of the worker.
    name: ArcSwap<String>,
    instance: ArcSwap<String>,
    /// When it was lost. None while it is up.
    lost: Mutex<Option<Instant>>,
    /// Whether its skills are in the catalog.
    listed: AtomicBool,
    /// Whether at least one connection attempt has ended.
    tried: AtomicBool,
    /// Whether an operator drained it.
    drained: AtomicBool,
    /// The number of calls that this gateway has in flight there.
    in_flight: AtomicU32,
    pub(crate) record: Record,
    /// Latencies by skill id.
    latencies: Mutex<HashMap<String, Arc<Latency>>>,
    /// A connection for each shard, plus one for its state and health.
    links: Box<[Arc<Link>]>,
}

/// Whether a worker process is present.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Serving,
    /// It was lost recently and may return.
    Away,
    Gone,
}

/// Counts a call as in flight at a worker until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlight<'a> {
    worker: &'a Worker,
    /// The number of calls in flight when it began, including itself.
    pub(crate) at_begin: u32,
}

impl Worker {
    /// `mesh` encrypts its connections, if its endpoint requires TLS.
    pub(crate) fn new(endpoint: Endpoint, shards: usize, mesh: Option<&Connector>) -> Self {
        let links = (0..=shards).map(|_| Arc::new(Link::new(endpoint.clone(), mesh.cloned()))).collect();
        let reason = ArcSwap::from_pointee("not reached yet".to_owned());
        let (state, name, instance, lost) = Default::default();
        let (listed, tried) = Default::default();
        let (drained, in_flight, record, latencies) = Default::default();
        let address = endpoint.to_string().into();
        Self {
            endpoint,
            address,
            state,
            reason,
            name,
            instance,
            lost,
            listed,
            tried,
            drained,
            in_flight,
            record,
            latencies,
            links,
        }
    }

    /// Updates the worker from its report.
    pub(crate) fn update(&self, state: WorkerState) {
        let is_new = **self.instance.load() != state.instance_id;
        if is_new {
            self.record.reset(state.capacity, Instant::now());
            self.instance.store(Arc::new(state.instance_id.clone()));
        }
        let mut latencies = self.latencies.lock();
        latencies.retain(|id, _| !is_new && state.skills.iter().any(|skill| skill.id == *id));
        drop(latencies);
        *self.lost.lock() = None;
        self.name.store(Arc::new(state.worker_id.clone()));
        self.state.store(Some(Arc::new(state)));
    }

    /// Marks it as lost. Returns its last report. None if it was already down.
    pub(super) fn lose(&self, reason: String) -> Option<Arc<WorkerState>> {
        self.listed.store(false, Ordering::Relaxed);
        self.reason.store(Arc::new(reason));
        self.tried.store(true, Ordering::Relaxed);
        let before = self.state.swap(None);
        if before.is_some() {
            *self.lost.lock() = Some(Instant::now());
        }
        before
    }

    /// The id of its current or last process. Empty if it was never reached.
    pub(crate) fn instance(&self) -> String {
        self.instance.load().to_string()
    }

    /// Whether its process has this id.
    pub(crate) fn is_instance(&self, instance: &str) -> bool {
        **self.instance.load() == instance
    }

    /// Whether it was lost so long ago that it is not expected to return.
    pub(super) fn is_given_up(&self) -> bool {
        let lost = *self.lost.lock();
        lost.is_some_and(|lost| lost.elapsed() >= GIVEN_UP)
    }

    /// Marks its skills as listed in the catalog: from now on, calls can reach it.
    pub(crate) fn mark_listed(&self) {
        self.listed.store(true, Ordering::Relaxed);
        self.tried.store(true, Ordering::Relaxed);
    }

    /// Whether it accepts calls, and calls can reach it.
    pub(super) fn is_up(&self) -> bool {
        self.listed.load(Ordering::Relaxed) && self.is_serving()
    }

    /// Returns the latency of a skill's calls at this worker.
    pub(crate) fn latency_of(&self, skill_id: &str) -> Arc<Latency> {
        let mut latencies = self.latencies.lock();
        Arc::clone(latencies.entry(skill_id.to_owned()).or_default())
    }

    /// Returns its last report, even while it accepts no calls. None while it is down.
    pub(crate) fn last_report(&self) -> Option<Arc<WorkerState>> {
        self.state.load_full()
    }

    /// Returns its last report if it accepts calls.
    pub(crate) fn serving(&self) -> Option<Arc<WorkerState>> {
        self.is_serving().then(|| self.state.load_full()).flatten()
    }

    /// Whether it accepts calls.
    pub(crate) fn is_serving(&self) -> bool {
        self.state.load().as_ref().is_some_and(|state| !state.draining) && !self.drained.load(Ordering::Relaxed)
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) -> InFlight<'_> {
        InFlight { worker: self, at_begin: self.in_flight.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// Its id, even while it is lost. Empty if it was never reached.
    pub(crate) fn id(&self) -> String {
        self.name.load().to_string()
    }

    /// Creates a client over the connection of one shard.
    pub(crate) fn client(&self, shard: usize) -> Client {
        Client::new(self.links[shard].client())
    }

    /// The connection that no shard uses, for state and health.
    pub(super) fn control_link(&self) -> &Arc<Link> {
        &self.links[self.links.len() - 1]
    }

    /// Drains or resumes it on an operator's behalf. Returns whether this changes anything.
    pub(crate) fn drain(&self, drained: bool) -> bool {
        self.drained.swap(drained, Ordering::Relaxed) != drained
    }

    /// Whether a connection attempt to it has ended.
    pub(super) fn was_tried(&self) -> bool {
        self.tried.load(Ordering::Relaxed)
    }

    /// Whether it is connected.
    pub(super) fn is_connected(&self) -> bool {
        self.state.load().is_some()
    }

    /// Describes the worker for an operator.
    pub(crate) fn info(&self) -> WorkerInfo {
        let state = self.state.load_full();
        let ejected = self.record.ejection_reason(Instant::now());
        let (status, reason) = match (&state, ejected) {
            (None, _) => (WorkerStatus::Down, self.reason.load().to_string()),
            (Some(_), _) if !self.is_serving() => (WorkerStatus::Draining, String::new()),
            (Some(_), _) if !self.is_up() => {
                (WorkerStatus::Down, "its skills are being loaded into the catalog".to_owned())
            }
            (Some(_), Some(reason)) => (WorkerStatus::Ejected, reason),
            (Some(_), None) => (WorkerStatus::Up, String::new()),
        };
        let state = state.as_deref().cloned().unwrap_or_default();
        let skills = callable(&state) as u32;
        WorkerInfo {
            worker_id: state.worker_id,
            endpoint: self.endpoint.to_string(),
            status: status.into(),
            in_flight: self.in_flight(),
            capacity: state.capacity,
            skills,
            version: state.version,
            reason,
            limit: if status == WorkerStatus::Down { 0 } else { self.record.limit() },
            refused_files: state.refused_files.into_iter().take(MAX_REFUSED_FILES).map(bound_text).collect(),
        }
    }
}

/// Truncates the texts of a refused file, because the gateway does not trust workers.
fn bound_text(mut file: RefusedFile) -> RefusedFile {
    for text in [&mut file.file, &mut file.reason] {
        text.truncate(text.floor_char_boundary(MAX_REFUSAL_BYTES));
    }
    file
}

/// Counts the skills of a worker that can be called. Versions of a skill count as one.
pub(super) fn callable(state: &WorkerState) -> usize {
    let available = state.skills.iter().filter(|it| it.status() == SkillStatus::Available);
    available.map(|it| &it.id).collect::<HashSet<_>>().len()
}

#[cfg(test)]
impl Worker {
    pub(crate) fn link(&self, shard: usize) -> &Link {
        &self.links[shard]
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.worker.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
