//! What all shards of a worker share.

use std::sync::Arc;

use openskill_metrics::{Snapshot, table};
use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::WorkerState;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::artifacts::Store;
use crate::config::Config;
use crate::metrics::{Gauges, Metrics};
use crate::process::jail::jailer::Jailer;
use crate::process::launch::Launcher;
use crate::questions::Questions;
use crate::registry::Registry;
use crate::schedule::Scheduler;
use crate::tools::installer::Installer;

/// A worker.
pub(crate) struct Worker {
    pub(crate) config: Config,
    pub(crate) registry: Registry,
    pub(crate) installer: Installer,
    pub(crate) scheduler: Scheduler,
    pub(crate) launcher: Launcher,
    pub(crate) jailer: Jailer,
    pub(crate) metrics: Metrics,
    /// Artifacts that callers read in ranges.
    pub(crate) artifacts: Arc<Store>,
    /// Questions that running calls have asked.
    pub(crate) questions: Arc<Questions>,
    /// Tells this process from the one before it.
    instance_id: String,
    /// What a shard waits for before it ends: calls, and connections that close gently.
    pub(crate) tasks: TaskTracker,
    draining: watch::Sender<bool>,
    /// Cancelled when the drain timeout has passed: calls that still run are ended.
    pub(crate) abandoned: CancellationToken,
}

impl Worker {
    pub(crate) fn new(
        config: Config,
        (registry, installer): (Registry, Installer),
        launcher: Launcher,
        jailer: Jailer,
        metrics: Metrics,
    ) -> Arc<Self> {
        let scheduler = Scheduler::new(config.concurrency, config.reserve, config.queue);
        let (draining, abandoned) = (watch::Sender::new(false), CancellationToken::new());
        let instance_id = hex(&random_id::<8>());
        Arc::new(Self {
            artifacts: Arc::new(Store::new(&instance_id)),
            questions: Arc::default(),
            tasks: TaskTracker::new(),
            config,
            registry,
            installer,
            scheduler,
            launcher,
            jailer,
            metrics,
            instance_id,
            draining,
            abandoned,
        })
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// Takes no new calls from now on, and tells the gateways.
    pub(crate) fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// All metrics now. Takes milliseconds if there are many skills.
    pub(crate) fn metrics(&self) -> Snapshot {
        let (running, queued) = self.scheduler.load();
        let [available, unavailable] = self.registry.count();
        let Config { concurrency, reserve, queue, .. } = self.config;
        let (slots, reserved) = (concurrency, reserve);
        let now = Gauges { running, queued, slots, reserved, queue, available, unavailable };
        let mut all = self.metrics.snapshot(now);
        self.registry.measure(&mut all);
        if let Some(mesh) = &self.config.mesh {
            if let Some(expiry) = mesh.expiry() {
                all.number(&table::CERTIFICATE_EXPIRY, &["mesh"], expiry.0 as f64);
            }
            all.number(&table::CERTIFICATE_STALE, &["mesh"], f64::from(mesh.is_stale()));
        }
        all
    }

    /// The worker as gateways see it.
    pub(crate) fn state(&self) -> WorkerState {
        // Skills first: a server that connects meanwhile must not show its tools without its prompts and resources.
        let skills = self.registry.describe();
        let (offerings, updates) = self.registry.shelf();
        WorkerState {
            worker_id: self.config.worker_id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            skills,
            capacity: self.config.concurrency as u32,
            in_flight: self.scheduler.in_flight() as u32,
            draining: self.is_draining(),
            instance_id: self.instance_id.clone(),
            offerings,
            updates,
        }
    }
}
