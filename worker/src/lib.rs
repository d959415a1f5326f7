//! The worker: hosts runners and normalizes their output.
//!
//! ```text
//! gateway ──gRPC──> server -> execute: registry -> schedule -> runner -> normalize
//!                                                                  │
//!                                                       process (supervised) or function
//! ```
//!
//! - [`config`]: resolved settings
//! - `server`: `WorkerService` over gRPC, and the health of the worker; `execute`: runs one call
//! - `kept_runs`: the runs of operations, which outlive their gateways
//! - `metrics`: the metrics; `scrape`: serves them over HTTP
//! - `schedule`: decides which calls run, and in which order the others wait
//! - [`manifest`], `registry`: the skills of this worker, kept up to date
//! - [`runner`]: the trait of all runners; [`mod@runners`]: the runners
//! - `skill_jailer`, `environment`: what the processes of skills may access, and their variables.
//!   `openskill-sandbox` runs these processes
//! - `sessions`: processes that are kept between calls
//! - [`events`]: progress and log lines of a call; [`questions`]: its questions to the user; `artifacts`: its media and
//!   files
//! - `normalize`: turns the raw output of a run into a valid result
//! - [`tools`]: installs MCP servers from an index; [`operator`]: the commands of `openskill tools`; `skill_names`:
//!   the names in use
//! - [`sdk`], [`shipped`]: the Python SDK and the skills that are part of the program
//! - [`check`]: runs a manifest's examples; [`local_call`]: calls the skill of one file; [`doctor`]: reports what this
//!   machine can isolate
//!
//! This crate does not know the gateway, read settings from the environment, or write to stdout.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

pub mod check;
pub mod config;
pub mod doctor;
pub mod events;
pub mod local_call;
pub mod manifest;
pub mod operator;
pub mod questions;
pub mod runner;
pub mod runners;
pub mod sdk;
pub mod shipped;

mod artifacts;
mod embedded;
mod environment;
mod execute;
mod kept_runs;
mod metrics;
mod normalize;
mod offerings;
mod registry;
mod schedule;
mod scrape;
mod server;
mod sessions;
mod shards;
mod skill_jailer;
mod skill_names;
mod spans;
pub mod tools;
mod worker;

pub use config::Config;
pub use runners::in_process::Functions;
pub use spans::RunTrace;

use environment::SkillEnvironment;
use manifest::ANSWERED;
use metrics::Metrics;
use openskill_sandbox::launch::Launcher;
use openskill_sandbox::strays::Strays;
use openskill_telemetry::metrics::SkillMetrics;
use registry::functions::FunctionReader;
use registry::{Registry, SkillSources};
use runners::Runners;
use runners::docker::Docker;
use runners::executable::Executable;
use runners::http::Http;
use runners::in_gateway::InGateway;
use runners::in_process::builtins::BuiltinFunctions;
use runners::in_process::{FunctionSet, InProcess};
use runners::mcp::Mcp;
use runners::mcp::trial::Trial;
use runners::python::Python;
use runners::python::environments::Environments;
use runners::python::interpreter::{self, Interpreter, PythonError};
use runners::sandbox::Sandbox;
use runners::services::Services;
use skill_jailer::SkillJailer;
use skill_names::SkillNames;
use tools::audit::ToolsWatch;
use tools::folder::ToolsFolder;
use tools::installer::Installer;
use tools::search_and_install::SearchAndInstall;
use worker::Worker;

/// How long the worker still accepts connections, and refuses their calls, after it told the gateways that it
/// shuts down. An unaccepted connection is reset, and the gateway could not know whether its call ran.
const LAME_DUCK: Duration = Duration::from_millis(200);

/// The interval at which the worker removes temporary directories of killed supervisors and counts the skill
/// user's processes.
const LOOK_AFTER: Duration = Duration::from_secs(3);

/// Runs a worker until `shutdown`, then drains it for at most [`Config::drain_timeout`].
///
/// Each listener gets a shard. `inproc` skills name one of `functions`. `scrapes` is the listener for metrics
/// requests.
///
/// # Errors
/// Fails if the system lacks what isolation requires, or if a shard can't start.
pub async fn run(
    config: Config,
    functions: Functions,
    listeners: Vec<openskill_net::listen::Listener>,
    scrapes: Option<std::net::TcpListener>,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let strays = Arc::new(Strays::adopt()?);
    let worker = build(config, functions, Arc::clone(&strays))?;
    let [skills, unavailable] = worker.registry.count();
    tracing::info!(worker_id = %worker.config.worker_id, skills, unavailable, "worker ready");
    let weak = Arc::downgrade(&worker);
    openskill_telemetry::metrics::source::publish(move || Some(weak.upgrade()?.metrics()));
    let scrapes =
        scrapes.map(|listener| AbortOnDropHandle::new(tokio::spawn(scrape::serve(Arc::clone(&worker), listener))));
    let shards = shards::start(&worker, listeners)?;
    let following = worker.config.mesh.clone().map(|mesh| AbortOnDropHandle::new(tokio::spawn(mesh.follow())));
    let reload = tokio::spawn(keep_up_to_date(Arc::clone(&worker), strays));
    let installer = worker.installer.clone();
    // Not awaited, because removing the remains of killed workers must not delay the start.
    drop(tokio::task::spawn_blocking(move || installer.sweep()));
    shutdown.cancelled().await;
    worker.drain();
    tokio::time::sleep(LAME_DUCK).await;
    shards::drain(shards, &worker, worker.config.drain_timeout).await;
    reload.abort();
    drop((scrapes, following));
    worker.close().await;
    let jailer = worker.jailer.clone();
    let _ = tokio::task::spawn_blocking(move || {
        jailer.machine().look_after();
        jailer.machine().close();
    })
    .await;
    Ok(())
}

fn build(config: Config, functions: Functions, strays: Arc<Strays>) -> std::io::Result<Arc<Worker>> {
    let launcher = Launcher::new(config.supervisor.clone(), Arc::clone(&strays));
    let environment = SkillEnvironment::new(&config)?;
    // Both probe the system with child processes. They run concurrently to shorten restarts.
    let (interpreter, jailer) = std::thread::scope(|scope| {
        let interpreter = scope.spawn(|| interpreter::find(config.python.as_deref()));
        let jailer = SkillJailer::new(&config, environment.clone());
        let not_found = |_| Err(PythonError::NotFound(PathBuf::new(), std::io::ErrorKind::Other));
        (interpreter.join().unwrap_or_else(not_found), jailer)
    });
    let reader = FunctionReader::for_worker(interpreter.as_ref().ok(), Arc::clone(&strays));
    let offers = watch::Sender::new(0);
    let changes = offers.subscribe();
    let interpreter = usable(interpreter);
    let environments = Environments::new(interpreter, config.packages.clone(), launcher.clone(), offers.clone());
    let services = Services { launcher, environment, jailer, environments, offers };
    let skill_names = Arc::new(SkillNames::default());
    let trial = Trial::new(&services, config.redactor.clone());
    let installer = Installer::new(&config, trial, services.environments.clone(), Arc::clone(&skill_names));
    let runners = runners(&config, &services, functions, installer.clone());
    let series = Arc::new(SkillMetrics::new(config.measured_skills));
    let metrics = Metrics::new(Arc::clone(&series));
    let sources = SkillSources::new(&config, reader);
    let registry = Registry::load(sources, runners, skill_names, changes, config.queue, series);
    if let Some(manifest) = config.only.clone() {
        registry.serve(manifest);
    }
    Ok(Worker::new(config, registry, installer, services.launcher, services.jailer, metrics))
}

fn usable(found: Result<Interpreter, PythonError>) -> Option<Interpreter> {
    match &found {
        Ok(it) => tracing::info!(path = %it.path.display(), version = ?it.version, "Python found"),
        Err(error) => tracing::warn!(%error, "Python was not found: cli:python skills are unavailable"),
    }
    found.ok()
}

fn runners(config: &Config, services: &Services, functions: Functions, installer: Installer) -> Runners {
    let sets: Vec<Arc<dyn FunctionSet>> =
        vec![Arc::new(BuiltinFunctions::new(config, services)), Arc::new(SearchAndInstall(installer))];
    let in_process = InProcess::new(functions, sets);
    let mcp = || Arc::new(Mcp::new(services, config.redactor.clone()));
    Runners::new(
        services.environments.clone(),
        [("mcp:stdio", mcp()), ("mcp:http", mcp())],
        [
            ("cli:python", Arc::new(Python::new(config, services)) as Arc<dyn runner::Runner>),
            ("cli:exec", Arc::new(Executable::new(services))),
            ("http", Arc::new(Http::new(config.variables.clone()))),
            ("docker", Arc::new(Docker::new(config, services))),
            ("inproc", Arc::new(in_process)),
            (
                "agent",
                Arc::new(InGateway(
                    "the skill is an agent, which runs in the gateway and not on a worker: update the gateway",
                )),
            ),
            (ANSWERED[0], Arc::new(InGateway("the gateway answers this skill, and not a worker: update the gateway"))),
            ("session:python", Arc::new(Sandbox::new(config, services))),
        ],
    )
}

/// Reloads skills that changed on disk, kills strays, and frees expired artifacts, for as long as the worker lives.
async fn keep_up_to_date(worker: Arc<Worker>, strays: Arc<Strays>) {
    let mut ticks = tokio::time::interval(worker.config.reload_interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let tools_watch = Arc::new(ToolsWatch::begin(ToolsFolder::at(&worker.config.tools.folder)));
    let mut looked_after = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = worker.registry.skill_names.wait_for_reload_request() => {}
        }
        worker.artifacts.expire(Instant::now());
        let (reloaded, watch, strays) = (Arc::clone(&worker), Arc::clone(&tools_watch), Arc::clone(&strays));
        let reload = move || {
            reloaded.registry.reload();
            watch.log_changes();
        };
        if let Err(error) = tokio::task::spawn_blocking(reload).await {
            tracing::error!(%error, "the skill folders could not be reloaded");
        }
        let found = tokio::task::spawn_blocking(move || strays.look()).await.unwrap_or_default();
        worker.metrics.strays(found);
        if found > 0 {
            tracing::warn!(found, "killed processes that had escaped their supervisor");
        }
        if found > 0 || looked_after.elapsed() > LOOK_AFTER {
            looked_after = Instant::now();
            let jailer = worker.jailer.clone();
            let _ = tokio::task::spawn_blocking(move || jailer.machine().look_after()).await;
        }
    }
}
