//! `docker`: a container for each call, made and removed through the engine's socket.
//!
//! The contract is that of scripts: `{"input": {...}}` on stdin, one JSON value on stdout, the exit code, stderr for
//! people; events are marked lines of stderr. What a container may do is in [`confinement`].
//!
//! ```text
//! call ──> conduct (a task of the main runtime) ──> create ─> attach ─> start ─> talk ─> inspect ─> answer
//!   │ dropped: cancels it                                    (or: exec in one started ahead)          │
//!   └─────────────────────────────────────────────────────> remove, by force <─────────────────────────┘
//! worker killed ──> pipe closes ──> sentinel: removes all of its containers
//! ```
//!
//! - [`engine`], [`lookout`]: whether the engine and the images are there
//! - [`fleet`], [`owner`], [`sentinel`]: that no container is forgotten, whoever dies
//! - [`call`], [`conversation`]: one run; [`ahead`]: containers started before their call

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bollard::errors::Error;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::limits::MAX_TIMEOUT_MS;
use openskill_proto::metadata::{ENV_ALLOWED_ROOT, ENV_EVENTS_MARK};
use openskill_proto::v1::{ErrorCode, SkillError};
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::environment::{Surroundings, of_call};
use crate::manifest::docker::{DATA_FOLDER, Docker as Settings, MountRoot, Pull, Warm};
use crate::manifest::{How, Manifest};
use crate::process::Launcher;
use crate::runner::{Invocation, RawOutput, Runner};

mod ahead;
mod call;
mod confinement;
mod conversation;
mod engine;
mod fleet;
mod lookout;
mod owner;
pub mod sentinel;

use ahead::Ahead;
use call::{Failure, Task};
use confinement::Purpose;
use engine::Engine;
use fleet::{Container, Fleet};
use lookout::{Lookout, Sight};
use owner::Owner;
use sentinel::Sentinel;

/// Between two sweeps for containers that nobody needs.
const SWEEP_EVERY: Duration = Duration::from_secs(15);

/// After a container that waited was taken, this long until the next is started: a short call is over by then, and a
/// start beside it would make it wait twice as long.
const REFILL_AFTER: Duration = Duration::from_millis(100);

/// The runner.
pub(crate) struct Docker {
    surroundings: Surroundings,
    lookout: Arc<Lookout>,
    fleet: Arc<Fleet>,
    ahead: Ahead,
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
        let ahead = Ahead::new(Arc::clone(&fleet));
        Self { surroundings, lookout, fleet, ahead, swept: Mutex::default() }
    }

    /// The environment of a container that serves any call of a skill.
    fn env_of_skill(&self, manifest: &Manifest, settings: &Settings) -> Vec<String> {
        let named = manifest.env.iter().filter_map(|name| Some((name.as_str(), std::env::var(name).ok()?)));
        let root = (settings.mount_root != MountRoot::None).then(|| (ENV_ALLOWED_ROOT, DATA_FOLDER.to_owned()));
        let own = [("OPENSKILL_SKILL_ID", manifest.id.clone())];
        named.chain(own).chain(root).map(|(name, value)| format!("{name}={value}")).collect()
    }

    async fn create(
        &self,
        manifest: &Manifest,
        settings: &Settings,
        sight: &Sight,
        Make { argv, env, stdin, life }: Make,
    ) -> Result<Container, Error> {
        let env = self.env_of_skill(manifest, settings).into_iter().chain(env).collect();
        let purpose = Purpose { argv, env, stdin, labels: self.fleet.owner.labels(&manifest.id, life) };
        let root = self.surroundings.root(manifest);
        self.fleet.create(confinement::body(manifest, settings, &sight.image, sight.facts, root, purpose)).await
    }

    /// Serves a call to its end, and removes its container, whether or not anybody waits for the answer. Its place is
    /// free when this ends: then nothing of it is left.
    async fn conduct(
        self: Arc<Self>,
        invocation: Invocation,
        gone: CancellationToken,
        answer: oneshot::Sender<RawOutput>,
    ) {
        let manifest = Arc::clone(&invocation.manifest);
        let How::Docker(settings) = &manifest.how else { return };
        let Ok(sight) = self.lookout.sight(settings) else {
            let message = "the container engine or the skill's image is not there";
            let _ = answer.send(RawOutput::Failed(SkillError::new(ErrorCode::Unavailable, message)));
            return;
        };
        let mark = call::new_mark();
        let mut env: Vec<_> = of_call(&invocation).map(|(name, value)| format!("{name}={value}")).collect();
        env.push(format!("{ENV_EVENTS_MARK}={mark}"));
        let argv = confinement::argv(settings, &sight.image);
        let memory_mb = manifest.limits.memory_mb;
        let task = Task { input: &invocation.input, mark: &mark, events: &invocation.events, memory_mb };
        let waiting = settings.warm.as_ref().and_then(|warm| self.one_ahead(&manifest, &sight, warm));
        if let Some(container) = waiting {
            match unless(&gone, call::run_within(&container, argv.clone(), env.clone(), &task)).await {
                Some(Err(Failure::NotStarted(error))) => {
                    tracing::debug!(%error, "a container that waited could not be used");
                    if matches!(error, Error::DockerResponseServerError { .. }) {
                        self.ahead.failed(&manifest);
                    }
                    container.remove().await;
                }
                ended => {
                    if let Some(Ok(_)) = &ended {
                        self.ahead.held(&manifest);
                    }
                    return finish(container, ended, answer).await;
                }
            }
        }
        if gone.is_cancelled() {
            return;
        }
        let life = invocation.deadline.saturating_duration_since(Instant::now());
        match self.create(&manifest, settings, &sight, Make { argv, env, stdin: true, life }).await {
            Ok(container) => {
                let ended = unless(&gone, call::run(&container, &task)).await;
                finish(container, ended, answer).await;
            }
            Err(error) => {
                self.lookout.doubt();
                let _ = answer.send(RawOutput::Failed(call::told(&Failure::NotStarted(error))));
            }
        }
    }

    /// A container that was started ahead, if there is one. Sees to it that there is one for the next call.
    fn one_ahead(self: &Arc<Self>, manifest: &Arc<Manifest>, sight: &Sight, warm: &Warm) -> Option<Container> {
        let taken = self.ahead.take(manifest, &sight.image.id);
        for _ in 0..self.ahead.begin(manifest, &sight.image.id, warm) {
            self.fleet.spawn(Arc::clone(self).start_ahead(Arc::clone(manifest), sight.clone(), warm.clone()));
        }
        taken
    }

    async fn start_ahead(self: Arc<Self>, manifest: Arc<Manifest>, sight: Sight, warm: Warm) {
        let How::Docker(settings) = &manifest.how else { return };
        tokio::time::sleep(REFILL_AFTER).await;
        // It may still be serving a call when it has waited for as long as it may.
        let life = Duration::from_secs(warm.idle_s) + Duration::from_millis(MAX_TIMEOUT_MS.into());
        let make = Make { argv: warm.hold, env: Vec::new(), stdin: false, life };
        let started = match self.create(&manifest, settings, &sight, make).await {
            Ok(container) => match container.client.start_container(&container.name, None).await {
                Ok(()) => Ok(container),
                Err(error) => {
                    container.remove().await;
                    Err(error)
                }
            },
            Err(error) => Err(error),
        };
        if let Err(error) = &started {
            tracing::warn!(skill_id = manifest.id, %error, "no container could be started ahead");
        }
        self.ahead.ready(&manifest, &sight.image.id, started.ok());
    }
}

/// What a container is made for.
struct Make {
    argv: Vec<String>,
    env: Vec<String>,
    stdin: bool,
    /// How long it is needed at most.
    life: Duration,
}

/// None once the caller is gone.
async fn unless<T>(gone: &CancellationToken, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        () = gone.cancelled() => None,
        done = work => Some(done),
    }
}

/// Answers first: the caller need not wait for the removal.
async fn finish(container: Container, ended: Option<Result<RawOutput, Failure>>, answer: oneshot::Sender<RawOutput>) {
    if let Some(ended) = ended {
        let _ = answer.send(ended.unwrap_or_else(|failure| RawOutput::Failed(call::told(&failure))));
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
        self.ahead.tend(manifests);
        if self.lookout.came_back() {
            self.ahead.forgive();
        }
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
        self.ahead.close();
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
            self.fleet.spawn(Arc::clone(&self).conduct(invocation, gone, answer));
            answered.await.unwrap_or_else(|_| {
                let message = "the worker stopped before the skill finished";
                RawOutput::Failed(SkillError::new(ErrorCode::Unavailable, message))
            })
        }
        .boxed()
    }
}
