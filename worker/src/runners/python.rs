//! `cli:python`: runs a Python script, which reads `{"input": {...}}` from stdin and prints one JSON value.
//!
//! Scripts are the same for all kinds of isolation. `isolation` chooses what separates one call from the next.
//!
//! - `fork` ([`forking`]): a separate process, forked from one that has loaded the script and its imports
//! - `process`: a separate process with a fresh interpreter
//! - `shared` ([`shared`]): fresh globals in one interpreter

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::allowed_root::RootError;
use openskill_sandbox::jail::Level;
use openskill_sandbox::jail::plan::Plan;
use openskill_sandbox::protocol::{Command, ProcessLimits};
use openskill_telemetry::metrics::{Snapshot, table};
use parking_lot::Mutex;

use crate::config::Config;
use crate::environment::path_text;
use crate::manifest::python::{Isolation, Python as Script};
use crate::manifest::{Manifest, RunnerSpec};
use crate::runner::{Invocation, RawOutput, Runner};
use crate::runners::once::{StdinContent, check_file, check_start, once};
use crate::runners::services::Services;

pub(crate) mod environments;
pub(crate) mod fork;
mod forking;
mod freshness;
pub(crate) mod interpreter;
mod settings;
mod shared;
pub(crate) mod variables;
mod warm;

use forking::Forking;
use interpreter::Interpreter;
use settings::{Cold, FLAGS, FORK, SHARED, WarmCounters, WarmSettings};
use shared::SharedPool;
use warm::{Warm, WarmBackend};

/// The program that calls one of a script's functions in a fresh interpreter. Its arguments are the script and the
/// function.
const FUNCTION: &str = concat!(include_str!("python/script.py"), include_str!("python/function.py"));

/// The maximum time that a worker waits for fork servers to exit when it shuts down.
const CLOSING: Duration = Duration::from_secs(3);

pub(crate) struct Python {
    services: Services,
    settings: WarmSettings,
    /// The warm pools, by skill.
    warm: Mutex<HashMap<String, Arc<Warm>>>,
}

impl Python {
    /// Must be called within a runtime that lives as long as the worker.
    pub(crate) fn new(config: &Config, services: &Services) -> Self {
        let idle = config.idle;
        let most = std::thread::available_parallelism().map_or(1, usize::from);
        let (counts, runtime) = (Arc::new(WarmCounters::new()), tokio::runtime::Handle::current());
        let settings = WarmSettings { launcher: services.launcher.clone(), counts, runtime, idle, most };
        Self { services: services.clone(), settings, warm: Mutex::default() }
    }

    /// Plans the jail of a script's process. Returns `None` if it runs without one.
    fn jail(&self, interpreter: &Interpreter, script: &Path, manifest: &Manifest) -> Result<Plan, String> {
        let mut readable = interpreter.prefixes.clone();
        // Includes the folder for the script's imports, and the file itself in case it is a link to another
        // folder.
        readable.extend(script.parent().map(Path::to_owned));
        readable.extend([script.to_owned(), interpreter.path.clone()]);
        self.services.jailer.plan(manifest, &readable, &[])
    }

    /// Returns the command that runs the script in a fresh interpreter.
    fn command(
        &self,
        interpreter: &Interpreter,
        script: &Script,
        manifest: &Manifest,
        mut env: BTreeMap<String, String>,
    ) -> Result<Command, SkillError> {
        check_start("script", &script.script)?;
        variables::complete(&mut env, interpreter.environment.as_deref());
        if interpreter.has_sdk {
            self.services.environment.prefer_installed_sdk(&mut env);
        }
        let jail = self.jail(interpreter, &script.script, manifest);
        let path = path_text(&script.script);
        let program = match &script.function {
            None => vec![path],
            Some(function) => vec!["-c".to_owned(), FUNCTION.to_owned(), path, function.clone()],
        };
        Ok(Command {
            program: interpreter.path.clone(),
            args: FLAGS.map(str::to_owned).into_iter().chain(program).collect(),
            env,
            cwd: self.services.environment.start_folder().to_owned(),
            limits: ProcessLimits::from_limits(&manifest.limits),
            nice: 0,
            forks: false,
            jail: Some(jail.map_err(|reason| SkillError::new(ErrorCode::Unavailable, reason))?),
            root: Some(self.services.environment.run_root(manifest)),
        })
    }

    /// Returns the skill's warm pool. Retires a pool with an older manifest or a replaced root. Returns `None` if
    /// the jail does not allow a fork server.
    fn warm(
        &self,
        manifest: &Arc<Manifest>,
        interpreter: &Arc<Interpreter>,
        script: &Script,
    ) -> Result<Option<Arc<Warm>>, SkillError> {
        let mut all = self.warm.lock();
        let root = self.services.environment.run_root(manifest);
        let versioned_id = manifest.versioned_id();
        if let Some(warm) = all.get(&versioned_id) {
            let same = Arc::ptr_eq(&warm.manifest, manifest) || warm.manifest == *manifest;
            let same = same && warm.interpreter == *interpreter;
            if same && !warm.needs_rebuild() && warm.knows(&root).map_err(RootError::into_error)? {
                return Ok(Some(Arc::clone(warm)));
            }
            warm.retire();
        }
        let root = Mutex::new(Some(root.open().map_err(RootError::into_error)?));
        let env = self.services.environment.for_skill(manifest);
        let command = self.command(interpreter, script, manifest, env)?;
        if command.jail.as_ref().is_some_and(|jail| !may_warm(script.isolation, jail)) {
            all.remove(&versioned_id);
            return Ok(None);
        }
        let backend = match script.isolation {
            Isolation::Shared => {
                let function = script.function.as_deref();
                WarmBackend::Shared(SharedPool::new(&self.settings, command, &script.script, function))
            }
            Isolation::Fork | Isolation::Process => {
                let jailed = manifest.jail.level != Level::Off;
                // The files of an environment that the worker built never change.
                let fixed = interpreter.environment.as_deref().filter(|_| script.needs.is_built());
                WarmBackend::Forking(Box::new(Forking::new(command, script, fixed, jailed)))
            }
        };
        let (manifest, interpreter) = (Arc::clone(manifest), Arc::clone(interpreter));
        let warm = Arc::new(Warm { manifest, interpreter, root, backend });
        all.insert(versioned_id, Arc::clone(&warm));
        Ok(Some(warm))
    }

    /// Runs a call in the warm pool, or else in a fresh interpreter. Fails if the script did not start.
    async fn run_call(&self, invocation: Invocation) -> Result<RawOutput, SkillError> {
        let not_here = || SkillError::new(ErrorCode::Unavailable, "the skill can't run on this worker");
        let manifest = Arc::clone(&invocation.manifest);
        let RunnerSpec::Python(script) = &manifest.how else { return Err(not_here()) };
        let interpreter = self.services.environments.interpreter(&manifest, &script.needs).ok_or_else(not_here)?;
        let ran = match script.isolation {
            Isolation::Process => Err(Cold::Process),
            Isolation::Fork | Isolation::Shared => self.run_warm(&interpreter, script, &invocation).await?,
        };
        match ran {
            Ok(output) => return Ok(output),
            Err(reason) => self.settings.counts.cold_calls.inc(reason.name()),
        }
        invocation.trace.record_start("cold");
        let env = self.services.environment.for_call(&invocation);
        let command = self.command(&interpreter, script, &manifest, env)?;
        Ok(Box::pin(once(&self.settings.launcher, command, invocation, StdinContent::Input)).await)
    }

    /// Runs a call in the warm pool, or returns why the pool did not start it.
    async fn run_warm(
        &self,
        interpreter: &Arc<Interpreter>,
        script: &Script,
        invocation: &Invocation,
    ) -> Result<Result<RawOutput, Cold>, SkillError> {
        let manifest = &invocation.manifest;
        let Some(warm) = self.warm(manifest, interpreter, script)? else { return Ok(Err(Cold::Jail)) };
        let ran = match &warm.backend {
            WarmBackend::Forking(forking) => {
                invocation.trace.record_start("fork");
                let processes = self.services.jailer.most_processes(manifest);
                // Boxed, like the fresh interpreter below, because they would otherwise dominate the size of each
                // call's future.
                Box::pin(forking.run(&self.settings, invocation, processes)).await
            }
            WarmBackend::Shared(shared) => {
                invocation.trace.record_start("warm");
                shared.run(invocation).await.ok_or(Cold::Failed)
            }
        };
        if ran.is_ok() {
            self.settings.counts.warm_calls.inc(warm.isolation());
        }
        Ok(ran)
    }
}

/// Returns whether the jail allows a process to serve several calls.
fn may_warm(isolation: Isolation, jail: &Plan) -> bool {
    isolation != Isolation::Fork || jail.may_fork()
}

impl Runner for Python {
    fn admit(&self, manifest: &Manifest) -> Result<(), String> {
        let RunnerSpec::Python(settings) = &manifest.how else {
            return Err("its manifest does not name a script".to_owned());
        };
        let script = &settings.script;
        let interpreter = self.services.environments.admit(manifest, &settings.needs)?;
        check_file("script", script)?;
        let jail = self.jail(&interpreter, script, manifest)?;
        self.services.jailer.announce(manifest);
        if !may_warm(settings.isolation, &jail) {
            tracing::warn!(
                skill_id = manifest.id,
                "each call gets a fresh interpreter: the user of skills can't reach all that the script needs, and a fork \
                 server must not bypass file permissions. `openskill doctor` names a path"
            );
        }
        Ok(())
    }

    fn run(self: Arc<Self>, invocation: Invocation) -> BoxFuture<'static, RawOutput> {
        async move { self.run_call(invocation).await.unwrap_or_else(RawOutput::NotStarted) }.boxed()
    }

    fn warm_up(self: Arc<Self>, manifest: Arc<Manifest>) -> BoxFuture<'static, ()> {
        async move {
            let RunnerSpec::Python(script) = &manifest.how else { return };
            let Some(interpreter) = self.services.environments.interpreter(&manifest, &script.needs) else { return };
            if script.isolation != Isolation::Fork {
                return;
            }
            if let Ok(Some(warm)) = self.warm(&manifest, &interpreter, script)
                && let Some(forking) = warm.forking()
            {
                forking.warm_up(&self.settings).await;
            }
        }
        .boxed()
    }

    fn not_warm(&self, manifest: &Manifest) -> Vec<String> {
        let RunnerSpec::Python(script) = &manifest.how else { return Vec::new() };
        let Some(warm) = self.warm.lock().get(&manifest.versioned_id()).cloned() else {
            let interpreter = self.services.environments.interpreter(manifest, &script.needs);
            let jail = interpreter.map(|it| self.jail(&it, &script.script, manifest));
            let forks = jail.is_none_or(|jail| jail.is_err() || jail.is_ok_and(|it| may_warm(script.isolation, &it)));
            return if forks { Vec::new() } else { vec![Cold::Jail.explain()] };
        };
        warm.explanations()
    }

    fn maintain(&self, manifests: &[Arc<Manifest>]) {
        let known: HashMap<_, _> = manifests.iter().map(|it| (it.versioned_id(), it)).collect();
        self.warm.lock().retain(|id, warm| {
            let kept = known.get(id).is_some_and(|manifest| warm.manifest.how == manifest.how);
            if kept {
                warm.maintain(&self.settings);
            } else {
                warm.retire();
            }
            kept
        });
    }

    fn measure(&self, metrics: &mut Snapshot) {
        let all: Vec<_> = self.warm.lock().values().cloned().collect();
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
    }

    fn close(&self) -> BoxFuture<'static, ()> {
        let leaving: Vec<_> = self.warm.lock().drain().flat_map(|(_, warm)| warm.retire()).collect();
        async move {
            let all = futures_util::future::join_all(leaving.iter().map(|it| it.wait_gone()));
            let _ = tokio::time::timeout(CLOSING, all).await;
        }
        .boxed()
    }
}
