//! `docker`: a container for each call, made and removed through the engine's socket.
//!
//! The contract is that of scripts: `{"input": {...}}` on stdin, one JSON value on stdout, the exit code, stderr for
//! people; events are marked lines of stderr. What a container may do is in [`confinement`].
//!
//! ```text
//! call ──> serve (a task of the main runtime) ──> create ─> attach ─> start ─> talk ─> inspect ─> answer
//!   │ dropped: cancels it                                                                           │
//!   └─────────────────────────────────────────────────────> remove, by force <─────────────────────────┘
//! worker killed ──> pipe closes ──> sentinel: removes all of its containers
//! ```
//!
//! - [`engine`], [`lookout`]: whether the engine and the images are there
//! - [`fleet`], [`owner`], [`sentinel`]: that no container is forgotten, whoever dies
//! - [`call`], [`conversation`]: one run
//! - [`mounted`]: the allowed root in a container

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::errors::Error;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::metadata::{ENV_ALLOWED_ROOT, ENV_EVENTS_MARK};
use openskill_proto::v1::{ErrorCode, SkillError};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::allowed_root::RootError;
use crate::config::Config;
use crate::environment::{Surroundings, of_call};
use crate::manifest::docker::{DATA_FOLDER, Docker as Settings, MountRoot, Pull};
use crate::manifest::{How, Manifest};
use crate::process::launch::Launcher;
use crate::runner::{Invocation, RawOutput, Runner};
use crate::runners::once::no_root;

mod call;
mod confinement;
mod containers;
mod conversation;
mod engine;
mod fleet;
mod lookout;
mod mounted;
mod owner;
pub mod sentinel;

use call::{Failure, Task};
use confinement::Purpose;
use engine::Engine;
use fleet::{Container, Fleet};
use lookout::{Lookout, Sight};
use mounted::Mounted;
use owner::Owner;
use sentinel::Sentinel;

/// Between two sweeps for containers that nobody needs.
const SWEEP_EVERY: Duration = Duration::from_secs(15);

/// The runner.
pub(crate) struct Docker {
    surroundings: Surroundings,
    lookout: Arc<Lookout>,
    fleet: Arc<Fleet>,
    swept: Mutex<Option<Instant>>,
}

impl Docker {
    /// Must be called within the worker's main runtime. Asks the engine nothing.
    pub(crate) fn new(
        config: &Config,
        launcher: Launcher,
        surroundings: Surroundings,
        offers: watch::Sender<u64>,
    ) -> Self {
        let (engine, runtime) = (Engine::new(&config.docker_host), Handle::current());
        let lookout = Lookout::new(engine.clone(), runtime.clone(), offers);
        let fleet = Fleet::new(engine, Owner::this(&config.worker_id), Sentinel::new(launcher), runtime);
        Self { surroundings, lookout, fleet, swept: Mutex::default() }
    }

    /// The environment of a container that serves any call of a skill.
    fn env_of_skill(&self, manifest: &Manifest, settings: &Settings) -> Vec<String> {
        let named = manifest.env.iter().filter_map(|name| Some((name.as_str(), std::env::var(name).ok()?)));
        let root = (settings.mount_root != MountRoot::None).then(|| (ENV_ALLOWED_ROOT, DATA_FOLDER.to_owned()));
        let own = [("OPENSKILL_SKILL_ID", manifest.id.clone())];
        let set = manifest.env_values.iter().map(|(name, value)| (name.as_str(), value.clone()));
        named.chain(set).chain(own).chain(root).map(|(name, value)| format!("{name}={value}")).collect()
    }

    /// The allowed root of a call, if its container gets it.
    fn mounted(&self, manifest: &Manifest, settings: &Settings) -> Result<Option<Mounted>, RootError> {
        (settings.mount_root != MountRoot::None)
            .then(|| Mounted::open(self.surroundings.run_root(manifest)))
            .transpose()
    }

    async fn create(
        &self,
        invocation: &Invocation,
        settings: &Settings,
        sight: &Sight,
        (mark, root): (&str, Option<&Mounted>),
    ) -> Result<Container, Error> {
        let manifest = &invocation.manifest;
        let mut env = self.env_of_skill(manifest, settings);
        env.extend(of_call(invocation).map(|(name, value)| format!("{name}={value}")));
        env.push(format!("{ENV_EVENTS_MARK}={mark}"));
        let life = invocation.deadline.saturating_duration_since(Instant::now());
        let labels = self.fleet.owner.labels(&manifest.id, life);
        let purpose = Purpose { argv: confinement::argv(settings, &sight.image), env, labels };
        let root = root.map(Mounted::path);
        self.fleet.create(confinement::body(manifest, settings, &sight.image, sight.facts, root, purpose)).await
    }

    /// Serves a call to its end, and removes its container, whether or not anybody waits for the answer. Its slot is
    /// free when this ends: then nothing of it is left.
    async fn serve(
        self: Arc<Self>,
        invocation: Invocation,
        gone: CancellationToken,
        answer: oneshot::Sender<RawOutput>,
    ) {
        let manifest = Arc::clone(&invocation.manifest);
        let How::Docker(settings) = &manifest.how else { return };
        let Ok(sight) = self.lookout.sight(settings) else {
            let message = "the container engine or the skill's image is not available";
            let _ = answer.send(RawOutput::NotStarted(SkillError::new(ErrorCode::Unavailable, message)));
            return;
        };
        if gone.is_cancelled() {
            return;
        }
        let root = self.mounted(&manifest, settings);
        let root = match &root {
            Ok(root) => root.as_ref(),
            Err(error) => {
                let _ = answer.send(RawOutput::NotStarted(no_root(error.clone())));
                return;
            }
        };
        let mark = call::new_mark();
        let memory_mb = manifest.limits.memory_mb;
        let task = Task { input: &invocation.input, mark: &mark, events: &invocation.events, memory_mb, root };
        match self.create(&invocation, settings, &sight, (&mark, root)).await {
            Ok(container) => {
                let ended = unless_cancelled(&gone, call::run(&container, &task)).await;
                finish(container, ended, answer).await;
            }
            Err(error) => {
                self.lookout.doubt();
                let _ = answer.send(call::unfinished(&Failure::NotStarted(error)));
            }
        }
    }
}

/// None once the caller is gone.
async fn unless_cancelled<T>(gone: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = gone.cancelled() => None,
        done = work => Some(done),
    }
}

/// Answers first: the caller need not wait for the removal.
async fn finish(container: Container, ended: Option<Result<RawOutput, Failure>>, answer: oneshot::Sender<RawOutput>) {
    if let Some(ended) = ended {
        let _ = answer.send(ended.unwrap_or_else(|failure| call::unfinished(&failure)));
    }
    container.remove().await;
}

impl Runner for Docker {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let How::Docker(settings) = &manifest.how else { return Err("it names no image".to_owned()) };
        self.lookout.look_now(settings);
        self.lookout.sight(settings).map(|_| ())
    }

    fn tend(&self, manifests: &[Arc<Manifest>]) {
        let mut wanted = HashMap::new();
        for manifest in manifests {
            if let How::Docker(settings) = &manifest.how {
                let pull = wanted.entry(settings.image.clone()).or_insert(settings.pull);
                *pull = if settings.pull == Pull::Missing { Pull::Missing } else { *pull };
            }
        }
        let idle = wanted.is_empty();
        self.lookout.tend(wanted);
        let mut swept = self.swept.lock().unwrap_or_else(PoisonError::into_inner);
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
            // The engine is asked by a task of the worker's main runtime: this future lives on a shard, and is dropped
            // at the deadline, when there is still a container to be removed.
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
