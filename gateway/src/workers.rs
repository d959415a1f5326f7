//! The workers a gateway knows: who they are, what they have, how busy they are.
//!
//! - [`source`]: where workers are looked for
//! - [`discovery`]: finding them, and following each one's state and health
//! - [`link`]: the connection to one
//! - [`record`]: how one has done of late; of that, [`ejection`] leaves out those that fail, [`limit`] says how many calls
//!   one may have
//! - [`pick`]: choosing one for a call, by [`latency`] and load; [`affinity`]: by session
//! - [`attempt`]: one call at one worker; [`budget`]: how many may be run again

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use openskill_proto::v1::{WorkerInfo, WorkerState, WorkerStatus};

pub(crate) mod affinity;
pub(crate) mod attempt;
pub(crate) mod budget;
pub(crate) mod discovery;
pub(crate) mod ejection;
pub(crate) mod latency;
pub(crate) mod limit;
pub(crate) mod link;
pub(crate) mod pick;
pub(crate) mod record;
pub(crate) mod source;

use latency::Latency;
use link::Link;
use record::Record;
use source::Endpoint;

/// How long a worker that was lost may take to be found again as the same process.
const GIVEN_UP: Duration = Duration::from_secs(2);

/// A worker at an endpoint, up or not.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) endpoint: Endpoint,
    /// What it last said of itself; none while it is down.
    state: ArcSwapOption<WorkerState>,
    /// Why it is down.
    reason: ArcSwap<String>,
    /// What it called itself last, and which process it was.
    name: ArcSwap<String>,
    instance: ArcSwap<String>,
    /// When it was lost; none while it is up.
    lost: Mutex<Option<Instant>>,
    /// Its skills are in the catalog.
    listed: AtomicBool,
    /// It was reached, or could not be, at least once.
    tried: AtomicBool,
    /// Taken out by hand.
    held: AtomicBool,
    /// Calls this gateway has running there.
    in_flight: AtomicU32,
    pub(crate) record: Record,
    /// How long calls take there, by skill.
    latencies: Mutex<HashMap<String, Arc<Latency>>>,
    /// A connection for each shard, and one more for following its state.
    links: Box<[Arc<Link>]>,
}

/// Whether a worker process can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    Serving,
    /// It was lost a moment ago and may be found again.
    Away,
    Gone,
}

/// A call that counts as running at a worker until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlight<'a> {
    worker: &'a Worker,
    at_begin: u32,
}

impl InFlight<'_> {
    /// How many calls there were when it began, with it.
    pub(crate) fn at_begin(&self) -> u32 {
        self.at_begin
    }
}

impl Worker {
    pub(crate) fn new(endpoint: Endpoint, shards: usize) -> Self {
        let links = (0..=shards).map(|_| Arc::new(Link::new(endpoint.clone()))).collect();
        let reason = ArcSwap::from_pointee("not reached yet".to_owned());
        let (state, name, instance, lost) = Default::default();
        let (listed, tried) = Default::default();
        let (held, in_flight, record, latencies) = Default::default();
        Self { endpoint, state, reason, name, instance, lost, listed, tried, held, in_flight, record, latencies, links }
    }

    /// Takes over what the worker says of itself.
    pub(crate) fn learn(&self, state: WorkerState) {
        let is_new = **self.instance.load() != state.instance_id;
        if is_new {
            self.record.begin_anew(state.capacity, Instant::now());
            self.instance.store(Arc::new(state.instance_id.clone()));
        }
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies.retain(|id, _| !is_new && state.skills.iter().any(|skill| skill.id == *id));
        drop(latencies);
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.name.store(Arc::new(state.worker_id.clone()));
        self.state.store(Some(Arc::new(state)));
    }

    /// It is lost. Gives what it had last said of itself, if it was up.
    fn lose(&self, reason: String) -> Option<Arc<WorkerState>> {
        self.listed.store(false, Ordering::Relaxed);
        self.reason.store(Arc::new(reason));
        self.tried.store(true, Ordering::Relaxed);
        let before = self.state.swap(None);
        if before.is_some() {
            *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        before
    }

    /// Which process it is, or was when it was lost. Empty before it was reached.
    pub(crate) fn instance(&self) -> String {
        self.instance.load().to_string()
    }

    /// Whether it has been lost for so long that it is not expected back.
    fn is_given_up(&self) -> bool {
        let lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.is_some_and(|lost| lost.elapsed() >= GIVEN_UP)
    }

    /// Its skills are in the catalog now, so calls can reach it.
    pub(crate) fn list(&self) {
        self.listed.store(true, Ordering::Relaxed);
        self.tried.store(true, Ordering::Relaxed);
    }

    /// Whether it takes calls, and calls can reach it.
    fn is_up(&self) -> bool {
        self.listed.load(Ordering::Relaxed) && self.is_serving()
    }

    /// How long calls of a skill take here.
    pub(crate) fn latency_of(&self, skill_id: &str) -> Arc<Latency> {
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(latencies.entry(skill_id.to_owned()).or_default())
    }

    /// What it has, if it takes calls.
    pub(crate) fn serving(&self) -> Option<Arc<WorkerState>> {
        self.is_serving().then(|| self.state.load_full()).flatten()
    }

    /// Whether it takes calls.
    pub(crate) fn is_serving(&self) -> bool {
        self.state.load().as_ref().is_some_and(|state| !state.draining) && !self.held.load(Ordering::Relaxed)
    }

    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) -> InFlight<'_> {
        InFlight { worker: self, at_begin: self.in_flight.fetch_add(1, Ordering::Relaxed) + 1 }
    }

    /// What it calls itself, also when it is lost. Empty before it was reached.
    pub(crate) fn id(&self) -> String {
        self.name.load().to_string()
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
        let out = self.record.why_out(Instant::now());
        let (status, reason) = match (&state, out) {
            (None, _) => (WorkerStatus::Down, self.reason.load().to_string()),
            (Some(_), _) if !self.is_serving() => (WorkerStatus::Draining, String::new()),
            (Some(_), _) if !self.is_up() => (WorkerStatus::Down, "its skills are being read".to_owned()),
            (Some(_), Some(reason)) => (WorkerStatus::Ejected, reason),
            (Some(_), None) => (WorkerStatus::Up, String::new()),
        };
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
            limit: if status == WorkerStatus::Down { 0 } else { self.record.limit() },
        }
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.worker.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All workers, by endpoint.
#[derive(Debug, Default)]
pub(crate) struct Workers {
    members: ArcSwap<BTreeMap<Endpoint, Arc<Worker>>>,
}

impl Workers {
    /// These are all there are now.
    pub(crate) fn replace(&self, members: BTreeMap<Endpoint, Arc<Worker>>) {
        self.members.store(Arc::new(members));
    }

    pub(crate) fn all(&self) -> Vec<Arc<Worker>> {
        self.members.load().values().cloned().collect()
    }

    /// How many take calls.
    pub(crate) fn up(&self) -> usize {
        self.members.load().values().filter(|worker| worker.is_up()).count()
    }

    /// Whether a worker process can be asked, now or soon.
    pub(crate) fn presence(&self, instance: &str) -> Presence {
        let members = self.members.load();
        let Some(worker) = members.values().find(|worker| **worker.instance.load() == instance) else {
            return Presence::Gone;
        };
        let state = worker.state.load();
        match &*state {
            Some(_) if worker.is_serving() => Presence::Serving,
            None if !worker.is_given_up() => Presence::Away,
            // It drains, an operator took it out, or it has been lost for a while.
            _ => Presence::Gone,
        }
    }

    /// Whether all that are known were reached, or could not be. False before any is known.
    pub(crate) fn were_tried(&self) -> bool {
        let members = self.members.load();
        !members.is_empty() && members.values().all(|worker| worker.tried.load(Ordering::Relaxed))
    }

    /// How many calls all that take calls may have together. None if none does.
    pub(crate) fn limit(&self) -> Option<usize> {
        let members = self.members.load();
        let limits = members.values().filter(|worker| worker.is_serving()).map(|worker| worker.record.limit() as usize);
        limits.fold(None, |sum, limit| Some(sum.unwrap_or(0) + limit))
    }

    /// Whether one more may be left out: at most half of those that are up.
    pub(crate) fn may_eject(&self) -> bool {
        (self.out() + 1) * 2 <= self.up()
    }

    /// How many of those that are up are left out now.
    pub(crate) fn out(&self) -> usize {
        let (members, now) = (self.members.load(), Instant::now());
        members.values().filter(|worker| worker.is_serving() && worker.record.why_out(now).is_some()).count()
    }
}
