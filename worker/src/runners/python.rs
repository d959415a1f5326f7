//! `cli:python`: a Python script. It reads `{"input": {...}}` from stdin and prints one JSON value.
//!
//! The script is the same however it is run: `isolation` says what separates one call from the next.
//!
//! - `fork` ([`forking`]): a process of its own, forked from one that has the script's imports and its code
//! - `process`: a process of its own, and a fresh interpreter in it
//! - `shared` ([`shared`]): fresh globals in one interpreter

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_metrics::{Snapshot, table};
use openskill_proto::v1::{ErrorCode, SkillError};
use tokio::sync::watch;

use crate::config::Config;
use crate::environment::{Surroundings, path_text};
use crate::manifest::python::{Isolation, Python as Script};
use crate::manifest::{How, Level, Manifest};
use crate::plain_file;
use crate::process::jail::jailer::Jailer;
use crate::process::jail::plan::Plan;
use crate::process::launch::Launcher;
use crate::process::protocol::Command;
use crate::process::protocol::ProcessLimits;
use crate::runner::{Invocation, RawOutput, Runner};
use crate::runners::once::{Given, check_start, no_root, once, unusable};

pub(crate) mod environments;
pub(crate) mod fork;
mod forking;
mod freshness;
pub(crate) mod interpreter;
pub(crate) mod settings;
mod shared;
pub(crate) mod variables;
mod warm;

use environments::Environments;
use forking::Forking;
use interpreter::Interpreter;
use settings::{Cold, Counts, FLAGS, FORK, SHARED, WarmSettings};
use shared::Shared;
use warm::{Kept, Warm};

/// How long a worker that shuts down waits for fork servers to end.
const CLOSING: Duration = Duration::from_secs(3);

/// The runner.
pub(crate) struct Python {
    environments: Environments,
    surroundings: Surroundings,
    jailer: Jailer,
    settings: WarmSettings,
    /// By skill.
    warm: Mutex<HashMap<String, Arc<Warm>>>,
}

impl Python {
    /// Must be called within the runtime that lives as long as the worker.
    pub(crate) fn new(
        config: &Config,
        interpreter: Option<Interpreter>,
        launcher: Launcher,
        (surroundings, jailer): (Surroundings, Jailer),
        offers: watch::Sender<u64>,
    ) -> Self {
        let environments = Environments::new(interpreter, config.packages.clone(), launcher.clone(), offers);
        let idle = config.idle;
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let (counts, runtime) = (Arc::new(Counts::new()), tokio::runtime::Handle::current());
        let settings = WarmSettings { launcher, counts, runtime, idle, most };
        Self { environments, surroundings, jailer, settings, warm: Mutex::default() }
    }

    /// What a script's process may reach.
    fn jail(&self, interpreter: &Interpreter, script: &Path, manifest: &Manifest) -> Result<Option<Plan>, String> {
        let mut readable = interpreter.prefixes.clone();
        // The folder, for what the script imports; the file itself, in case it is a link to elsewhere.
        readable.extend(script.parent().map(Path::to_owned));
        readable.extend([script.to_owned(), interpreter.path.clone()]);
        self.jailer.plan(manifest, &readable, &[])
    }

    /// How a fresh interpreter runs the script.
    fn command(
        &self,
        interpreter: &Interpreter,
        script: &Path,
        manifest: &Manifest,
        mut env: BTreeMap<String, String>,
    ) -> Result<Command, SkillError> {
        check_start("script", script)?;
        variables::complete(&mut env, interpreter.environment.as_deref());
        let jail = self.jail(interpreter, script, manifest);
        Ok(Command {
            program: interpreter.path.clone(),
            args: FLAGS.map(str::to_owned).into_iter().chain([path_text(script)]).collect(),
            env,
            cwd: self.surroundings.start_folder().to_owned(),
            limits: ProcessLimits::of(&manifest.limits),
            nice: 0,
            forks: false,
            jail: jail.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?,
            root: Some(self.surroundings.run_root(manifest)),
        })
    }

    /// The skill's warm pool. One for an older manifest, or for a root that was replaced, takes no more calls. None: its jail
    /// lets no fork server run it.
    fn warm(
        &self,
        manifest: &Arc<Manifest>,
        interpreter: &Arc<Interpreter>,
        script: &Script,
    ) -> Result<Option<Arc<Warm>>, SkillError> {
        let mut all = self.lock();
        let root = self.surroundings.run_root(manifest);
        if let Some(warm) = all.get(&manifest.id) {
            let same = Arc::ptr_eq(&warm.manifest, manifest) || warm.manifest == *manifest;
            let same = same && warm.interpreter == *interpreter;
            if same && !warm.needs_rebuild() && warm.knows(&root).map_err(no_root)? {
                return Ok(Some(Arc::clone(warm)));
            }
            warm.retire();
        }
        let root = Mutex::new(Some(root.open().map_err(no_root)?));
        let env = self.surroundings.of_skill(manifest);
        let command = self.command(interpreter, &script.script, manifest, env)?;
        if !may_warm(script.isolation, command.jail.as_ref()) {
            all.remove(&manifest.id);
            return Ok(None);
        }
        let kept = match script.isolation {
            Isolation::Shared => Kept::Shared(Shared::new(&self.settings, &command, &script.script)),
            Isolation::Fork | Isolation::Process => {
                let jailed = manifest.jail.level != Level::Off;
                // An environment that the worker built does not change.
                let fixed = interpreter.environment.as_deref().filter(|_| script.needs.is_built());
                Kept::Forking(Box::new(Forking::new(&command, &script.script, fixed, jailed)))
            }
        };
        let (manifest, interpreter) = (Arc::clone(manifest), Arc::clone(interpreter));
        let warm = Arc::new(Warm { manifest, interpreter, root, kept });
        all.insert(warm.manifest.id.clone(), Arc::clone(&warm));
        Ok(Some(warm))
    }

    /// Runs a call in the warm pool, or says why it was not started there.
    async fn run_warm(
        &self,
        interpreter: &Arc<Interpreter>,
        script: &Script,
        invocation: &Invocation,
    ) -> Result<Result<RawOutput, Cold>, SkillError> {
        let manifest = &invocation.manifest;
        let Some(warm) = self.warm(manifest, interpreter, script)? else { return Ok(Err(Cold::Jail)) };
        let ran = match &warm.kept {
            Kept::Forking(forking) => {
                invocation.trace.started("fork");
                let processes = self.jailer.most_processes(manifest);
                // Boxed, as is a fresh interpreter below: they would be most of the size of each call's future.
                Box::pin(forking.run(&self.settings, invocation, processes)).await
            }
            Kept::Shared(shared) => {
                invocation.trace.started("warm");
                shared.run(invocation).await.ok_or(Cold::Failed)
            }
        };
        if ran.is_ok() {
            self.settings.counts.warm_calls.inc(warm.isolation());
        }
        Ok(ran)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Arc<Warm>>> {
        self.warm.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether the jail leaves a process of several calls.
fn may_warm(isolation: Isolation, jail: Option<&Plan>) -> bool {
    isolation != Isolation::Fork || jail.is_none_or(Plan::may_fork)
}

impl Runner for Python {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let How::Python(settings) = &manifest.how else { return Err("it names no script".to_owned()) };
        let script = &settings.script;
        let interpreter = self.environments.admit(&manifest.id, &settings.needs)?;
        plain_file::check(script).map_err(|reason| match reason {
            it if it.is_missing() => {
                format!("its script '{}' does not exist", script.file_name().unwrap_or_default().to_string_lossy())
            }
            other => unusable("script", script, other),
        })?;
        let jail = self.jail(&interpreter, script, manifest)?;
        self.jailer.announce(manifest);
        if !may_warm(settings.isolation, jail.as_ref()) {
            tracing::warn!(
                skill_id = manifest.id,
                "each call gets a fresh interpreter: the user of skills can't reach all that the script needs, and a fork \
                 server must not pass file permissions. `openskill doctor` names a path"
            );
        }
        Ok(())
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move {
            let manifest = Arc::clone(&invocation.manifest);
            let unavailable = || {
                let message = "the skill can't run on this worker";
                RawOutput::NotStarted(SkillError::new(ErrorCode::Unavailable, message))
            };
            let How::Python(script) = &manifest.how else { return unavailable() };
            let Some(interpreter) = &self.environments.interpreter(&manifest.id, &script.needs) else {
                return unavailable();
            };
            let ran = match script.isolation {
                Isolation::Process => Ok(Err(Cold::Process)),
                Isolation::Fork | Isolation::Shared => self.run_warm(interpreter, script, &invocation).await,
            };
            match ran {
                Ok(Ok(output)) => return output,
                Ok(Err(reason)) => self.settings.counts.cold_calls.inc(reason.name()),
                Err(error) => return RawOutput::NotStarted(error),
            }
            invocation.trace.started("cold");
            let env = self.surroundings.of(&invocation);
            match self.command(interpreter, &script.script, &manifest, env) {
                Ok(command) => Box::pin(once(&self.settings.launcher, command, invocation, Given::Input)).await,
                Err(error) => RawOutput::NotStarted(error),
            }
        }
        .boxed()
    }

    fn warm_up(self: Arc<Self>, manifest: Arc<Manifest>) -> BoxFuture<'static, ()> {
        async move {
            let How::Python(script) = &manifest.how else { return };
            let Some(interpreter) = self.environments.interpreter(&manifest.id, &script.needs) else { return };
            if script.isolation != Isolation::Fork {
                return;
            }
            if let Ok(Some(warm)) = self.warm(&manifest, &interpreter, script)
                && let Kept::Forking(forking) = &warm.kept
            {
                forking.warm_up(&self.settings).await;
            }
        }
        .boxed()
    }

    fn not_warm(&self, manifest: &Manifest) -> Vec<String> {
        let How::Python(script) = &manifest.how else { return Vec::new() };
        let Some(warm) = self.lock().get(&manifest.id).cloned() else {
            let interpreter = self.environments.interpreter(&manifest.id, &script.needs);
            let jail = interpreter.map(|it| self.jail(&it, &script.script, manifest));
            let forks =
                jail.is_none_or(|jail| jail.is_err() || jail.is_ok_and(|it| may_warm(script.isolation, it.as_ref())));
            return if forks { Vec::new() } else { vec![warm::explained(Cold::Jail)] };
        };
        warm.explanations()
    }

    fn settled(&self) -> bool {
        self.environments.settled()
    }

    fn tend(&self, manifests: &[Arc<Manifest>]) {
        self.environments.tend(manifests);
        let known: HashMap<&str, &Arc<Manifest>> = manifests.iter().map(|it| (it.id.as_str(), it)).collect();
        self.lock().retain(|id, warm| {
            let kept = known.get(id.as_str()).is_some_and(|manifest| warm.manifest.how == manifest.how);
            if kept {
                warm.tend(&self.settings);
            } else {
                warm.retire();
            }
            kept
        });
    }

    fn measure(&self, metrics: &mut Snapshot) {
        let all: Vec<_> = self.lock().values().cloned().collect();
        for isolation in [FORK, SHARED] {
            let sizes = all.iter().filter(|warm| warm.isolation() == isolation).map(|warm| warm.processes());
            let sizes: Vec<_> = sizes.filter(|processes| *processes > 0).collect();
            metrics.number(&table::WARM_POOLS, &[isolation], sizes.len() as f64);
            metrics.number(&table::WARM_PROCESSES, &[isolation], sizes.iter().sum::<usize>() as f64);
        }
        let counts = &self.settings.counts;
        counts.starts.read(metrics, &table::WARM_STARTS);
        counts.failures.read(metrics, &table::WARM_FAILURES);
        counts.warm_calls.read(metrics, &table::WARM_CALLS);
        counts.cold_calls.read(metrics, &table::COLD_CALLS);
        warm::measure_imports(&all, metrics);
        self.environments.measure(metrics);
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let leaving: Vec<_> = self.lock().drain().flat_map(|(_, warm)| warm.retire()).collect();
        let environments = self.environments.clone();
        async move {
            environments.close().await;
            let all = futures_util::future::join_all(leaving.iter().map(|it| it.wait_gone()));
            let _ = tokio::time::timeout(CLOSING, all).await;
        }
        .boxed()
    }
}
