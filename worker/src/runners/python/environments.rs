//! Provides the interpreters of scripts that require packages, or another version than the worker's Python.
//!
//! An environment is identified by its content: the interpreter, the requirements, and the settings that affect
//! how requirements are resolved. Skills with the same requirements share an environment. It is built in the
//! background, never during a call.
//!
//! ```text
//! admit ──> requirements ──> key ──> there already? ── yes ──> interpreter
//!                                        │ no
//!                                        └──> build: lock ─> install (uv, pip) ─> publish ──> admitted again
//! ```
//!
//! - [`requirements`]: the requirements of a manifest; [`recipe`]: the key derived from them
//! - [`builder`]: builds an environment; [`install`]: runs the installer; [`mod@reason`]: explains why that failed
//! - [`store`]: the folder of environments, which workers share; [`unfinished`]: an entry of it that is being built
//! - [`venv`]: virtual environments that users created

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_sandbox::launch::Launcher;
use openskill_telemetry::metrics::{Snapshot, table};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::interpreter::{self, Interpreter};
use crate::config::{Builds, PythonPackages};
use crate::manifest::Manifest;
use crate::manifest::python::{Needs, Packages};

mod builder;
mod install;
pub(crate) mod reason;
mod recipe;
mod requirements;
pub(crate) mod store;
pub(crate) mod unfinished;
mod venv;

use builder::{Builder, NO_STORE};
use install::{PackageInstaller, has_pip, storage};
use recipe::Recipe;
use store::Store;

/// The pause before retrying a failed build, at first and after many failures.
const RETRY: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(900));

/// The interval between searches for old environments.
const CLEAN_EVERY: Duration = Duration::from_secs(3600);

/// The reason why a skill is unavailable if this process does not build environments.
pub(crate) const NOT_BUILT: &str = "its environment is not built yet: a worker builds it, or `openskill check`";

/// Describes for people which installer is used and where environments are stored. Changes nothing, and does not use
/// the network.
///
/// # Errors
/// Returns the reason if environments can't be built.
pub(crate) fn describe(settings: &PythonPackages, python: Option<&Interpreter>) -> Result<String, String> {
    let tool = PackageInstaller::find(settings.installer)?;
    if matches!(tool, PackageInstaller::Pip) && python.is_some_and(|it| !has_pip(&it.path)) {
        return Err(reason::NO_PIP.to_owned());
    }
    let folder = settings.store.as_deref().ok_or_else(|| NO_STORE.to_owned())?;
    Store::check(folder).map_err(|error| storage(&error))?;
    let (tool, count) = (tool.name(), Store::count(folder));
    Ok(format!("packages are installed with {tool}; {count} environments in {}", folder.display()))
}

/// The environments of a worker. Clones share them.
#[derive(Clone)]
pub(crate) struct Environments {
    /// The worker's interpreter. `None` if no usable one was found.
    own: Option<Arc<Interpreter>>,
    builder: Arc<Builder>,
    runtime: Handle,
    /// Incremented when a build succeeds or fails.
    offers: watch::Sender<u64>,
    state: Arc<Mutex<State>>,
    closing: CancellationToken,
    tasks: TaskTracker,
}

#[derive(Default)]
struct State {
    /// The state of each environment that this worker builds, by key.
    stages: HashMap<String, Stage>,
    /// By versioned id: the skill's interpreter, and the key of its environment if the worker built one.
    chosen: HashMap<String, (Arc<Interpreter>, Option<String>)>,
    /// By versioned id: the key of the environment that the skill is waiting for.
    waiting: HashMap<String, String>,
    /// Interpreters of other versions that were already found.
    versions: HashMap<(u32, u32), Arc<Interpreter>>,
    cleaned: Option<Instant>,
}

enum Stage {
    /// The build is running. `before`: why the previous build failed.
    Building {
        before: Option<String>,
    },
    Ready(Arc<Interpreter>),
    Failed {
        reason: String,
        again: Instant,
        failures: u32,
    },
}

impl Environments {
    /// Must be called within a runtime that lives as long as the worker.
    pub(crate) fn new(
        own: Option<Interpreter>,
        settings: PythonPackages,
        launcher: Launcher,
        offers: watch::Sender<u64>,
    ) -> Self {
        let builder = Arc::new(Builder::new(settings, launcher));
        let (state, closing, tasks) = (Arc::default(), CancellationToken::new(), TaskTracker::new());
        let (own, runtime) = (own.map(Arc::new), Handle::current());
        Self { own, builder, runtime, offers, state, closing, tasks }
    }

    /// Returns the interpreter of a skill's script, if the skill was admitted. Does not read files.
    pub(crate) fn interpreter(&self, skill: &Manifest, needs: &Needs) -> Option<Arc<Interpreter>> {
        if needs.is_nothing() {
            return self.own.clone();
        }
        self.state.lock().chosen.get(&skill.versioned_id()).map(|(interpreter, _)| Arc::clone(interpreter))
    }

    /// Finds a skill's interpreter. If its environment is missing, starts building it in the background, and
    /// offers the skill again afterwards.
    ///
    /// # Errors
    /// Returns the reason, for people, if there is no interpreter or not yet.
    pub(crate) fn admit(&self, skill: &Manifest, needs: &Needs) -> Result<Arc<Interpreter>, String> {
        let found = self.find(skill, needs);
        let (mut state, skill) = (self.state.lock(), skill.versioned_id());
        match &found {
            Ok((interpreter, key)) => {
                state.waiting.remove(&skill);
                if !needs.is_nothing() {
                    state.chosen.insert(skill, (Arc::clone(interpreter), key.clone()));
                }
            }
            Err(_) => drop(state.chosen.remove(&skill)),
        }
        found.map(|(interpreter, _)| interpreter)
    }

    /// Builds an environment for a skill or server that is not installed yet, unless the environment exists.
    /// Dropping the future stops the installer.
    ///
    /// # Errors
    /// Returns the reason, for people, if the environment can't be built.
    pub(crate) async fn provide(&self, skill: &str, needs: &Needs) -> Result<Arc<Interpreter>, String> {
        let base = self.base(needs.version)?;
        let wanted = requirements::read(&needs.packages)?;
        let recipe = Recipe::new(skill, base, wanted, needs, &self.builder.settings);
        let folder = tokio::select! {
            () = self.closing.cancelled() => return Err("the worker is shutting down".to_owned()),
            built = self.builder.build(&recipe) => built?,
        };
        Ok(Arc::new(recipe.base.in_environment(&folder)))
    }

    fn find(&self, skill: &Manifest, needs: &Needs) -> Result<(Arc<Interpreter>, Option<String>), String> {
        match &needs.packages {
            Packages::None => Ok((self.base(needs.version)?, None)),
            Packages::Venv(folder) => {
                let found = venv::read(folder)?;
                let (major, minor) = found.version;
                match needs.version {
                    Some(wanted) if wanted != found.version => Err(format!(
                        "it needs Python {}.{}, and its virtual environment has {major}.{minor}",
                        wanted.0, wanted.1
                    )),
                    _ => Ok((Arc::new(found), None)),
                }
            }
            packages => {
                let base = self.base(needs.version)?;
                let wanted = requirements::read(packages)?;
                let store = self.builder.settings.store.as_deref().ok_or_else(|| NO_STORE.to_owned())?;
                let recipe = Recipe::new(&skill.id, base, wanted, needs, &self.builder.settings);
                let key = recipe.key.clone();
                self.find_or_build(skill, recipe, store).map(|interpreter| (interpreter, Some(key)))
            }
        }
    }

    /// Finds the interpreter of this version, without packages. It creates environments, and has an installer.
    ///
    /// # Errors
    /// Returns the reason, for people, if there is no such interpreter.
    pub(crate) fn base(&self, version: Option<(u32, u32)>) -> Result<Arc<Interpreter>, String> {
        let own = self.own.as_ref();
        let Some(wanted) = version.filter(|wanted| own.is_none_or(|own| own.version != *wanted)) else {
            return own.cloned().ok_or_else(|| {
                "no usable Python was found on this worker; install Python 3.9 or newer, or set OPENSKILL_PYTHON"
                    .to_owned()
            });
        };
        if let Some(known) = self.state.lock().versions.get(&wanted) {
            return Ok(Arc::clone(known));
        }
        let name = format!("python{}.{}", wanted.0, wanted.1);
        let found = interpreter::find(Some(Path::new(&name))).ok().filter(|it| it.version == wanted).map(Arc::new);
        let found = found.ok_or_else(|| {
            let (major, minor) = wanted;
            format!("it needs Python {major}.{minor}, and this worker has no {name} on its PATH: install it, or change python.version")
        })?;
        self.state.lock().versions.insert(wanted, Arc::clone(&found));
        Ok(found)
    }

    /// Returns the interpreter in this recipe's environment. Starts building a missing environment in the
    /// background.
    fn find_or_build(&self, skill: &Manifest, recipe: Recipe, store: &Path) -> Result<Arc<Interpreter>, String> {
        let mut state = self.state.lock();
        let State { stages, waiting, .. } = &mut *state;
        waiting.insert(skill.versioned_id(), recipe.key.clone());
        let there = Store::find(store, &recipe.key);
        let (before, failures) = match (stages.get(&recipe.key), there) {
            (Some(Stage::Ready(interpreter)), Some(_)) => return Ok(Arc::clone(interpreter)),
            (_, Some(folder)) => {
                let interpreter = Arc::new(recipe.base.in_environment(&folder));
                stages.insert(recipe.key, Stage::Ready(Arc::clone(&interpreter)));
                return Ok(interpreter);
            }
            (Some(Stage::Building { before, .. }), None) => return Err(being_built(before.as_ref())),
            (Some(Stage::Failed { reason, again, .. }), None) if Instant::now() < *again => return Err(reason.clone()),
            (Some(Stage::Failed { reason, failures, .. }), None) => (Some(reason.clone()), *failures),
            (Some(Stage::Ready(_)) | None, None) => (None, 0),
        };
        let may_build = match &self.builder.settings.builds {
            Builds::All => true,
            Builds::Only(skill) => *skill == recipe.skill,
            Builds::None => false,
        };
        if !may_build {
            return Err(NOT_BUILT.to_owned());
        }
        let reason = being_built(before.as_ref());
        stages.insert(recipe.key.clone(), Stage::Building { before });
        self.tasks.spawn_on(self.clone().build(recipe, failures), &self.runtime);
        Err(reason)
    }

    /// Returns whether no environment is being built.
    pub(crate) fn is_settled(&self) -> bool {
        !self.state.lock().stages.values().any(|it| matches!(it, Stage::Building { .. }))
    }

    /// Forgets environments that no skill needs, retries failed builds, and removes old environments from the
    /// disk. Must not block.
    pub(crate) fn maintain(&self, manifests: &[Arc<Manifest>]) {
        let needs_one = |it: &Manifest| it.unavailable.is_none() && it.how.needs().is_some_and(|it| !it.is_nothing());
        let ids: HashSet<_> = manifests.iter().filter(|it| needs_one(it)).map(|it| it.versioned_id()).collect();
        let mut state = self.state.lock();
        let State { stages, chosen, waiting, cleaned, .. } = &mut *state;
        chosen.retain(|skill, _| ids.contains(skill));
        waiting.retain(|skill, _| ids.contains(skill));
        let in_use: HashSet<String> =
            chosen.values().filter_map(|(_, key)| key.clone()).chain(waiting.values().cloned()).collect();
        stages.retain(|key, stage| in_use.contains(key) || matches!(stage, Stage::Building { .. }));
        let now = Instant::now();
        let store = self.builder.settings.store.as_deref();
        let due = stages.iter().any(|(key, stage)| match stage {
            Stage::Building { .. } => false,
            Stage::Failed { again, .. } => now >= *again,
            // The environment may have been removed from the disk.
            Stage::Ready(_) => store.is_some_and(|folder| !Store::has(folder, key)),
        });
        if !in_use.is_empty() && cleaned.is_none_or(|it| it.elapsed() > CLEAN_EVERY) {
            *cleaned = Some(now);
            self.clean(in_use);
        }
        drop(state);
        if due {
            self.announce();
        }
    }

    /// Adds the metrics of environments and builds.
    pub(crate) fn measure(&self, metrics: &mut Snapshot) {
        let state = self.state.lock();
        let name = |stage: &Stage| match stage {
            Stage::Ready(_) => "ready",
            Stage::Building { .. } => "building",
            Stage::Failed { .. } => "failed",
        };
        for wanted in ["ready", "building", "failed"] {
            let count = state.stages.values().filter(|it| name(it) == wanted).count();
            metrics.number(&table::PYTHON_ENVIRONMENTS, &[wanted], count as f64);
        }
    }

    /// Stops all builds, and waits until they have ended.
    pub(crate) async fn close(&self) {
        self.closing.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Builds an environment, then offers its skills again.
    async fn build(self, recipe: Recipe, failures: u32) {
        let (skill, begun) = (&recipe.skill, Instant::now());
        let outcome = tokio::select! {
            () = self.closing.cancelled() => return,
            outcome = self.builder.build(&recipe) => outcome,
        };
        let seconds = begun.elapsed().as_secs_f64();
        let stage = match outcome {
            Ok(folder) => {
                tracing::info!(skill_id = skill, seconds, "the environment of a Python skill is ready");
                (self.builder.settings.progress)(&format!("{skill}: its environment is ready after {seconds:.1} s"));
                Stage::Ready(Arc::new(recipe.base.in_environment(&folder)))
            }
            Err(reason) => {
                tracing::warn!(skill_id = skill, reason, "the environment of a Python skill was not built");
                let again = Instant::now() + (RETRY.0 * 2_u32.saturating_pow(failures.min(10))).min(RETRY.1);
                Stage::Failed { reason, again, failures: failures + 1 }
            }
        };
        self.state.lock().stages.insert(recipe.key, stage);
        self.announce();
    }

    /// In the background, marks these environments as used, and removes old ones.
    fn clean(&self, in_use: HashSet<String>) {
        let (Some(folder), keep) = (self.builder.settings.store.clone(), self.builder.settings.keep) else { return };
        if self.builder.settings.builds != Builds::All {
            return;
        }
        self.runtime.spawn_blocking(move || {
            let cleaned = Store::open(&folder).and_then(|store| {
                in_use.iter().for_each(|key| drop(Store::find(&folder, key)));
                keep.map_or(Ok(0), |keep| store.clean(keep, &in_use))
            });
            match cleaned {
                Ok(0) => {}
                Ok(removed) => tracing::info!(removed, "removed unused environments of Python skills"),
                Err(error) => tracing::warn!(%error, "old environments of Python skills could not be removed"),
            }
        });
    }

    fn announce(&self) {
        self.offers.send_modify(|count| *count += 1);
    }
}

fn being_built(before: Option<&String>) -> String {
    before.cloned().unwrap_or_else(|| "its environment is being built".to_owned())
}
