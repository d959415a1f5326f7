//! The state that all shards of a worker share.

use std::sync::Arc;

use openskill_proto::trace::{hex, random_id};
use openskill_proto::v1::WorkerState;
use openskill_sandbox::launch::Launcher;
use openskill_telemetry::metrics::{Snapshot, table};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::artifacts::Store;
use crate::config::Config;
use crate::kept_runs::KeptRuns;
use crate::metrics::Metrics;
use crate::questions::Questions;
use crate::registry::Registry;
use crate::schedule::Scheduler;
use crate::skill_jailer::SkillJailer;
use crate::tools::installer::Installer;

/// The state that all shards of a worker share.
pub(crate) struct Worker {
    pub(crate) config: Config,
    pub(crate) registry: Registry,
    pub(crate) installer: Installer,
    pub(crate) scheduler: Scheduler,
    pub(crate) launcher: Launcher,
    pub(crate) jailer: SkillJailer,
    pub(crate) metrics: Metrics,
    /// Large artifacts, which callers fetch in ranges.
    pub(crate) artifacts: Arc<Store>,
    /// The open questions of running calls.
    pub(crate) questions: Arc<Questions>,
    /// The runs of operations.
    pub(crate) kept_runs: Arc<KeptRuns>,
    /// Distinguishes this process from earlier ones of the same worker.
    instance_id: String,
    /// Calls, and connections that are closing. A shard waits for them before it ends.
    pub(crate) tasks: TaskTracker,
    draining: watch::Sender<bool>,
    /// Cancelled when the drain timeout has passed, which ends the remaining calls.
    pub(crate) abandoned: CancellationToken,
}

impl Worker {
    pub(crate) fn new(
        config: Config,
        registry: Registry,
        installer: Installer,
        launcher: Launcher,
        jailer: SkillJailer,
        metrics: Metrics,
    ) -> Arc<Self> {
        let scheduler = Scheduler::new(config.concurrency, config.reserve, config.queue);
        let (draining, abandoned) = (watch::Sender::new(false), CancellationToken::new());
        let instance_id = hex(&random_id::<8>());
        Arc::new(Self {
            artifacts: Arc::new(Store::new(&instance_id)),
            questions: Arc::default(),
            kept_runs: KeptRuns::new(config.concurrency + config.reserve + config.queue),
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

    /// Stops accepting calls, and notifies the gateways.
    pub(crate) fn drain(&self) {
        self.kept_runs.close();
        self.draining.send_replace(true);
    }

    /// Releases everything that the runners keep between calls, and waits until all processes have ended.
    pub(crate) async fn close(&self) {
        self.registry.runners.close().await;
        self.launcher.wait_finished().await;
    }

    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Returns all current metrics. Takes milliseconds if there are many skills.
    pub(crate) fn metrics(&self) -> Snapshot {
        let mut all = self.metrics.snapshot();
        let (running, queued) = self.scheduler.load();
        all.number(&table::WORKER_RUNNING, &[], running as f64);
        all.number(&table::WORKER_QUEUED, &[], queued as f64);
        all.number(&table::WORKER_SLOTS, &["open"], self.config.concurrency as f64);
        all.number(&table::WORKER_SLOTS, &["reserved"], self.config.reserve as f64);
        all.number(&table::WORKER_QUEUE_LIMIT, &[], self.config.queue as f64);
        let [available, unavailable] = self.registry.count();
        all.number(&table::WORKER_SKILLS, &["available"], available as f64);
        all.number(&table::WORKER_SKILLS, &["unavailable"], unavailable as f64);
        self.registry.runners.measure(&mut all);
        if let Some(mesh) = &self.config.mesh {
            if let Some(expiry) = mesh.expiry() {
                all.number(&table::CERTIFICATE_EXPIRY, &["mesh"], expiry.0 as f64);
            }
            all.number(&table::CERTIFICATE_STALE, &["mesh"], f64::from(mesh.is_stale()));
        }
        all
    }

    /// Returns the worker's state, for gateways.
    pub(crate) fn state(&self) -> WorkerState {
        // Read the skills first. A server that connects meanwhile must not show its tools without its prompts and
        // resources.
        let skills = self.registry.describe();
        let (offerings, updates) = self.registry.offerings();
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
            refused_files: self.registry.refused_files(),
        }
    }
}
