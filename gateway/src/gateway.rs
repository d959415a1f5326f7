//! The state of a gateway, shared by its shards.

use std::sync::Arc;

use openskill_metrics::Snapshot;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::call::aside::Aside;
use crate::call::request::Call;
use crate::catalog::Catalog;
use crate::config::Config;
use crate::dispatch::affinity::Affinity;
use crate::dispatch::budget::RetryBudget;
use crate::dispatch::questions::Questions;
use crate::observe::Observer;
use crate::observe::call_record::CallRecord;
use crate::observe::metrics::Gauges;
use crate::observe::recorder::Recorder;
use crate::protect::admission::{Admission, Permit, Refusal};
use crate::protect::circuit::Circuits;
use crate::protect::idempotency::IdempotencyKeys;
use crate::state::memory::MemoryBudget;
use crate::workers::fleet::Fleet;

/// A gateway.
pub(crate) struct Gateway {
    pub(crate) config: Config,
    pub(crate) catalog: Catalog,
    pub(crate) fleet: Fleet,
    pub(crate) affinity: Affinity,
    pub(crate) retries: RetryBudget,
    pub(crate) questions: Questions,
    pub(crate) circuits: Circuits,
    pub(crate) keys: Arc<IdempotencyKeys>,
    admission: Arc<Admission>,
    pub(crate) observer: Arc<Observer>,
    /// Request bodies that arrive.
    pub(crate) inbound: MemoryBudget,
    /// Where large requests and answers are read.
    pub(crate) aside: Aside,
    /// Answers that wait for clients to read them.
    pub(crate) outbound: MemoryBudget,
    /// Calls that continue without their clients, and connections that linger.
    pub(crate) tasks: TaskTracker,
    /// Whether an operator drained the gateway.
    drained: watch::Sender<bool>,
    /// Cancelled when the gateway shuts down: it takes nothing new from then on.
    pub(crate) shutdown: CancellationToken,
}

/// One shard's view of the gateway. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shard {
    pub(crate) gateway: Arc<Gateway>,
    /// Selects the shard's own connection to each worker.
    pub(crate) number: usize,
}

impl Gateway {
    /// # Errors
    /// The recorder can't be started.
    pub(crate) fn new(config: Config, shutdown: CancellationToken) -> std::io::Result<Arc<Self>> {
        let recorder = config.recorder.as_ref().map(Recorder::start).transpose()?;
        let observer = Arc::new(Observer { recorder, ..Observer::new(config.measured_skills, config.tracer.clone()) });
        let inbound = MemoryBudget::default();
        Ok(Arc::new(Self {
            aside: Aside::new(inbound.clone()),
            catalog: Catalog::new(Arc::clone(&observer.metrics.skills)),
            fleet: Fleet::default(),
            affinity: Affinity::default(),
            retries: RetryBudget::default(),
            questions: Questions::default(),
            circuits: Circuits::new(config.circuits, Arc::clone(&observer)),
            keys: IdempotencyKeys::new(config.idempotency_lifetime),
            admission: Admission::new(config.max_in_flight, config.max_in_flight_of_skill),
            observer,
            inbound,
            outbound: MemoryBudget::default(),
            tasks: TaskTracker::new(),
            drained: watch::Sender::new(false),
            shutdown,
            config,
        }))
    }

    /// Admits a call, or says why not. Refusals are not counted: the caller may wait and ask again.
    pub(crate) fn try_admit(&self, call: &Call) -> Result<Permit, Refusal> {
        if *self.drained.borrow() {
            return Err(Refusal::Drained);
        }
        self.admission.admit(call, self.workers_limit()).map_err(Refusal::Full)
    }

    /// Admits a call, and counts the refusal if it does not.
    pub(crate) fn admit(&self, call: &Call) -> Result<Permit, Refusal> {
        self.try_admit(call).inspect_err(|refusal| self.count(*refusal))
    }

    /// Counts a refusal that the caller gets.
    pub(crate) fn count(&self, refusal: Refusal) {
        if let Refusal::Full(bound) = refusal {
            self.observer.call_refused(bound.name());
        }
    }

    /// Notes for log and metrics whether a refused call names a skill that exists.
    pub(crate) fn note_skill(&self, call: &Call, record: &CallRecord) {
        if let Some(entry) = self.catalog.get(&call.skill_id) {
            record.found_skill(&entry.series);
            record.found_secrets(entry.definition.secrets());
        }
    }

    /// Calls that hold a permit.
    pub(crate) fn in_flight(&self) -> usize {
        self.admission.in_flight()
    }

    /// All metrics now. Takes milliseconds if there are many skills.
    pub(crate) fn metrics(&self) -> Snapshot {
        let skills = self.catalog.snapshot();
        self.observer.metrics.snapshot(&Gauges {
            in_flight: self.in_flight(),
            limit: self.workers_limit(),
            workers_known: self.fleet.all().len(),
            workers_up: self.fleet.up(),
            workers_ejected: self.fleet.ejected(),
            skills: skills.len(),
            callable: skills.values().filter(|entry| !entry.candidates.is_empty()).count(),
            circuits: self.circuits.not_closed(),
            session_circuits: self.circuits.of_sessions(),
        })
    }

    /// The workers' concurrency limit, all together, if it is adaptive.
    fn workers_limit(&self) -> Option<usize> {
        if self.config.adaptive_limit { self.fleet.limit() } else { None }
    }

    /// Drains the gateway on an operator's behalf, or resumes. Calls in flight finish either way.
    pub(crate) fn drain(&self, drained: bool) {
        self.drained.send_replace(drained);
    }

    /// Whether an operator drained the gateway, now and at each change.
    pub(crate) fn drained(&self) -> watch::Receiver<bool> {
        self.drained.subscribe()
    }

    /// Whether it serves calls: a worker is up, and the gateway neither drains nor shuts down.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_draining() && self.fleet.up() > 0
    }

    /// Whether it takes no new calls.
    pub(crate) fn is_draining(&self) -> bool {
        self.shutdown.is_cancelled() || *self.drained.borrow()
    }
}
