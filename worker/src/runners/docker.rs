//! `docker`: runs each call in a container, which the worker creates and removes through the engine's socket.
//!
//! The contract is that of scripts: `{"input": {...}}` on stdin, one JSON value on stdout, the exit code, and text for
//! people on stderr. Events are marked lines of stderr. [`confinement`] defines what a container may do.
//!
//! ```text
//! call ──> serve (a task of the main runtime) ──> create ─> attach ─> start ─> talk ─> inspect ─> answer
//!   │ dropped: cancels it                                                                           │
//!   └─────────────────────────────────────────────────────> remove, by force <─────────────────────────┘
//! worker killed ──> pipe closes ──> sentinel: removes all of its containers
//! ```
//!
//! - [`engine`], [`lookout`]: check whether the engine and the images are available
//! - [`fleet`], [`sentinel`]: make sure that no container is left behind, whichever process dies
//! - [`call`]: runs one call
//! - [`mounted`]: the allowed root in a container

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::errors::Error;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::metadata::{ENV_ALLOWED_ROOT, ENV_EVENTS_MARK};
use openskill_proto::v1::{ErrorCode, SkillError};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::environment::{SkillEnvironment, call_variables};
use crate::manifest::docker::{DATA_FOLDER, Docker as Settings, MountRoot, Pull};
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::{Invocation, RawOutput, Runner};
use crate::runners::services::Services;

mod call;
mod confinement;
mod engine;
mod fleet;
mod lookout;
mod mounted;
mod owner;
pub mod sentinel;

use call::{CallFailure, ContainerCall};
use engine::{Engine, UsableImage};
use fleet::{Container, Fleet};
use lookout::EngineMonitor;
use mounted::RootMount;
use owner::ContainerOwner;
use sentinel::Sentinel;

/// The interval between sweeps for containers that no call needs.
const SWEEP_EVERY: Duration = Duration::from_secs(15);

pub(crate) struct Docker {
    surroundings: SkillEnvironment,
    monitor: Arc<EngineMonitor>,
    fleet: Arc<Fleet>,
    swept: Mutex<Option<Instant>>,
}

impl Docker {
    /// Must be called within the worker's main runtime. Sends no requests to the engine.
    pub(crate) fn new(config: &Config, services: &Services) -> Self {
        let (engine, runtime) = (Engine { host: config.docker_host.clone() }, Handle::current());
        let monitor = EngineMonitor::new(engine.clone(), runtime.clone(), services.offers.clone());
        let sentinel = Sentinel::new(services.launcher.clone());
        let fleet = Fleet::new(engine, ContainerOwner::this(&config.worker_id), sentinel, runtime);
        Self { surroundings: services.environment.clone(), monitor, fleet, swept: Mutex::default() }
    }

    async fn create(
        &self,
        invocation: &Invocation,
        settings: &Settings,
        usable: &UsableImage,
        mark: &str,
        root: Option<&RootMount>,
    ) -> Result<Container, Error> {
        let manifest = &invocation.manifest;
        let variables = self.surroundings.variables();
        let named = manifest.env.iter().filter_map(|name| Some((name.as_str(), variables.get(name)?)));
        let set = manifest.env_values.iter().map(|(name, value)| (name.as_str(), value.clone()));
        let own = [("OPENSKILL_SKILL_ID", manifest.id.clone())];
        let data = root.map(|_| (ENV_ALLOWED_ROOT, DATA_FOLDER.to_owned()));
        let of_call = call_variables(invocation).chain([(ENV_EVENTS_MARK, mark.to_owned())]);
        let text = |(name, value): (&str, String)| format!("{name}={value}");
        let env = named.chain(set).chain(own).chain(data).map(text).chain(of_call.map(text)).collect();
        let life = invocation.deadline.saturating_duration_since(Instant::now());
        let labels = self.fleet.owner.labels(&manifest.id, life);
        let root = root.map(RootMount::path);
        self.fleet.create(confinement::body(manifest, settings, usable, root, env, labels)).await
    }

    /// Serves a call to its end and removes its container, even if the caller no longer waits. Frees the call's
    /// slot when nothing of the call is left.
    async fn serve(
        self: Arc<Self>,
        invocation: Invocation,
        gone: CancellationToken,
        answer: oneshot::Sender<RawOutput>,
    ) {
        let manifest = Arc::clone(&invocation.manifest);
        let RunnerSpec::Docker(settings) = &manifest.how else { return };
        let Ok(usable) = self.monitor.usable_image(settings) else {
            let message = "the container engine or the skill's image is not available";
            let _ = answer.send(RawOutput::NotStarted(SkillError::new(ErrorCode::Unavailable, message)));
            return;
        };
        if gone.is_cancelled() {
            return;
        }
        let is_mounted = settings.mount_root != MountRoot::None;
        let root = is_mounted.then(|| RootMount::open(self.surroundings.run_root(&manifest))).transpose();
        let root = match &root {
            Ok(root) => root.as_ref(),
            Err(error) => {
                let _ = answer.send(RawOutput::NotStarted(error.clone().into_error()));
                return;
            }
        };
        let mark = call::new_mark();
        let memory_mb = manifest.limits.memory_mb;
        let task = ContainerCall { input: &invocation.input, mark: &mark, events: &invocation.events, memory_mb, root };
        match self.create(&invocation, settings, &usable, &mark, root).await {
            Ok(container) => {
                let ended = gone.run_until_cancelled(call::run(&container, &task)).await;
                // Answer first, so that the caller need not wait for the removal.
                if let Some(ended) = ended {
                    let _ = answer.send(ended.unwrap_or_else(CallFailure::into_output));
                }
                container.remove().await;
            }
            Err(error) => {
                self.monitor.doubt();
                let _ = answer.send(CallFailure::NotStarted(error).into_output());
            }
        }
    }
}

impl Runner for Docker {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let RunnerSpec::Docker(settings) = &manifest.how else {
            return Err("its manifest does not name an image".to_owned());
        };
        self.monitor.refresh_now(settings);
        self.monitor.usable_image(settings).map(|_| ())
    }

    fn maintain(&self, manifests: &[Arc<Manifest>]) {
        let mut wanted = HashMap::new();
        for manifest in manifests {
            if let RunnerSpec::Docker(settings) = &manifest.how {
                let pull = wanted.entry(settings.image.clone()).or_insert(settings.pull);
                *pull = if settings.pull == Pull::Missing { Pull::Missing } else { *pull };
            }
        }
        let idle = wanted.is_empty();
        self.monitor.maintain(wanted);
        let mut swept = self.swept.lock();
        if (!idle || self.fleet.has_lost()) && swept.is_none_or(|it| it.elapsed() >= SWEEP_EVERY) {
            *swept = Some(Instant::now());
            let fleet = Arc::clone(&self.fleet);
            self.fleet.spawn(async move {
                fleet.sweep().await;
            });
        }
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let fleet = Arc::clone(&self.fleet);
        async move { fleet.close().await }.boxed()
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            // A task on the worker's main runtime talks to the engine. This future lives on a shard and is dropped
            // at the deadline, when the container may still have to be removed.
            let gone = CancellationToken::new();
            let _cancels = gone.clone().drop_guard();
            let (answer, answered) = oneshot::channel();
            self.fleet.spawn(Arc::clone(&self).serve(invocation, gone, answer));
            answered.await.unwrap_or_else(|_| {
                let message = "the worker stopped before the skill finished";
                RawOutput::Failed(SkillError::new(ErrorCode::Unavailable, message))
            })
        }
        .boxed()
    }
}
