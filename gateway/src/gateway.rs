//! What all shards of a gateway share.

use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::admission::{Admission, Full, Permit};
use crate::call::Call;
use crate::catalog::Catalog;
use crate::circuit::Circuits;
use crate::config::Config;
use crate::idempotency::Keys;
use crate::memory::Memory;
use crate::metrics::{Gauges, Metrics};
use crate::workers::Workers;
use crate::workers::affinity::Affinity;
use crate::workers::budget::RetryBudget;

/// A gateway.
pub(crate) struct Gateway {
    pub(crate) config: Config,
    pub(crate) catalog: Catalog,
    pub(crate) workers: Workers,
    pub(crate) affinity: Affinity,
    pub(crate) retries: RetryBudget,
    pub(crate) circuits: Circuits,
    pub(crate) keys: Arc<Keys>,
    admission: Arc<Admission>,
    pub(crate) metrics: Metrics,
    /// Bodies that arrive, and answers that wait to be read.
    pub(crate) arriving: Memory,
    pub(crate) leaving: Memory,
    /// Calls that go on without their clients.
    pub(crate) tasks: TaskTracker,
    /// An operator wants no new calls here.
    held: watch::Sender<bool>,
    /// Cancelled when the gateway takes nothing new any more.
    pub(crate) draining: CancellationToken,
}

/// Why there is no place for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPlace {
    /// An operator wants no new calls here.
    Drained,
    Full(Full),
}

impl Gateway {
    pub(crate) fn new(config: Config, draining: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            catalog: Catalog::default(),
            workers: Workers::default(),
            affinity: Affinity::default(),
            retries: RetryBudget::default(),
            circuits: Circuits::new(config.circuits),
            keys: Keys::new(config.idempotency_lifetime),
            admission: Admission::new(config.max_in_flight, config.max_in_flight_of_skill),
            metrics: Metrics::default(),
            arriving: Memory::default(),
            leaving: Memory::default(),
            tasks: TaskTracker::new(),
            held: watch::Sender::new(false),
            draining,
            config,
        })
    }

    /// A place for a call, or why there is none.
    pub(crate) fn enter(&self, call: &Call) -> Result<Permit, SkillError> {
        self.ask(call).map_err(|why| self.refuse(why))
    }

    /// The same for who may wait and ask again.
    pub(crate) fn ask(&self, call: &Call) -> Result<Permit, NoPlace> {
        if *self.held.borrow() {
            return Err(NoPlace::Drained);
        }
        let size = call.input.size();
        let workers = self.calls_of_workers();
        self.admission.enter(&call.skill_id, &call.session_id, size, workers).map_err(NoPlace::Full)
    }

    /// What a caller hears for whom there is no place.
    pub(crate) fn refuse(&self, why: NoPlace) -> SkillError {
        match why {
            NoPlace::Drained => {
                let message = "the gateway is drained: send the call to another one";
                SkillError::new(ErrorCode::Unavailable, message).with_retry_after_ms(1000)
            }
            NoPlace::Full(bound) => {
                self.metrics.refused(bound);
                SkillError::overloaded(match bound {
                    Full::Gateway => "the gateway is full",
                    Full::Session => "this session has its share of the places: wait for its calls to end",
                    Full::Skill => "this skill has as many calls as it may have",
                })
            }
        }
    }

    /// Calls that have a place.
    pub(crate) fn in_flight(&self) -> usize {
        self.admission.in_flight()
    }

    /// What the gateway is like now.
    pub(crate) fn gauges(&self) -> Gauges {
        Gauges {
            in_flight: self.in_flight(),
            limit: self.calls_of_workers(),
            workers_up: self.workers.up(),
            workers_out: self.workers.out(),
        }
    }

    /// How many calls the workers may have, if that is limited.
    fn calls_of_workers(&self) -> Option<usize> {
        if self.config.adaptive_limit { self.workers.limit() } else { None }
    }

    /// Takes no new calls, or takes them again. What was accepted goes on either way.
    pub(crate) fn hold(&self, held: bool) {
        self.held.send_replace(held);
    }

    /// Whether an operator wants no new calls, now and at each change.
    pub(crate) fn held(&self) -> watch::Receiver<bool> {
        self.held.subscribe()
    }

    /// Whether calls can be served: some worker is up, and nothing is being shut down or drained.
    pub(crate) fn is_ready(&self) -> bool {
        !self.is_draining() && self.workers.up() > 0
    }

    /// Whether new calls are not wanted.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled() || *self.held.borrow()
    }
}
