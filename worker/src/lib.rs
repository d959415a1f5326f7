//! The worker: hosts runners and normalizes what they return.
//!
//! ```text
//! gateway ──gRPC──> server -> execute: registry -> schedule -> runner -> normalize
//!                                                                  │
//!                                                       process (supervised) or function
//! ```
//!
//! - [`config`]: resolved settings
//! - `server`: `WorkerService` over gRPC, with `health` beside it; `execute`: one call
//! - `metrics`: what is counted; `scrape`: serves it over HTTP
//! - `schedule`: which calls run, and in which order the others wait
//! - [`manifest`], `registry`: the skills of this worker, kept up to date
//! - `allowed_root`: the folder they work in, as a descriptor
//! - [`runner`]: the contract of every runner; [`mod@runners`]: the runners
//! - [`process`]: skill processes, supervised; `sessions`: those that are kept between calls
//! - [`events`]: progress and log lines of a call; [`questions`]: what it asks its user; `artifacts`: its media and files
//! - `normalize`: from the raw output of a run to a result that keeps the contract
//! - [`tools`]: installs MCP servers that an index lists; `roster`: the names that are taken
//! - [`check`]: runs a manifest's examples; [`doctor`]: reports what this machine can isolate
//!
//! Nothing here knows the gateway, reads settings from the environment, or writes to stdout.

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
pub mod manifest;
pub mod process;
pub mod questions;
pub mod runner;
pub mod runners;

mod allowed_root;
mod artifacts;
mod environment;
mod execute;
mod health;
mod metrics;
mod normalize;
mod plain_file;
mod registry;
mod roster;
mod schedule;
mod scrape;
mod server;
mod sessions;
mod shards;
mod shelf;
mod spans;
pub mod tools;
mod untrusted_json;
mod worker;

// Unit tests skip as the integration tests do.
#[cfg(test)]
#[allow(unreachable_pub)]
#[path = "../../tests/src/require.rs"]
mod require;

pub use config::Config;
pub use runners::in_process::Functions;
pub use spans::RunTrace;

use environment::Surroundings;
use manifest::gateway::ANSWERED;
use metrics::Metrics;
use openskill_metrics::Skills;
use process::jail::jailer::Jailer;
use process::launch::Launcher;
use process::strays::Strays;
use registry::Registry;
use roster::Roster;
use runners::Runners;
use runners::docker::Docker;
use runners::executable::Executable;
use runners::http::Http;
use runners::in_gateway::InGateway;
use runners::in_process::InProcess;
use runners::in_process::host::Host;
use runners::mcp::Mcp;
use runners::mcp::trial::Trial;
use runners::python::Python;
use runners::python::environments::Environments;
use runners::python::interpreter::{self, Interpreter, PythonError};
use runners::sandbox::Sandbox;
use tools::folder::Folder;
use tools::installer::Installer;
use tools::watched::Watched;
use worker::Worker;

/// How long a worker that shuts down still accepts connections, and refuses calls, after it told the gateways. A connection
/// that nobody accepts is reset, and the gateway could not know whether its call ran.
const LAME_DUCK: Duration = Duration::from_millis(200);

/// How often the worker looks for temporary directories of killed supervisors and counts the skill user's processes.
const LOOK_AFTER: Duration = Duration::from_secs(3);

/// Runs a worker until `shutdown`, then drains it for at most [`Config::drain_timeout`].
///
/// There is one shard per listener. `inproc` skills name one of `functions`. With `scrapes`, metrics are served there.
///
/// # Errors
/// The system lacks what isolation needs, or a shard could not start.
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
    openskill_metrics::source::publish(move || Some(weak.upgrade()?.metrics()));
    let scrapes =
        scrapes.map(|listener| AbortOnDropHandle::new(tokio::spawn(scrape::serve(Arc::clone(&worker), listener))));
    let shards = shards::start(&worker, listeners)?;
    let following = worker.config.mesh.clone().map(|mesh| AbortOnDropHandle::new(tokio::spawn(mesh.follow())));
    let reload = tokio::spawn(keep_up_to_date(Arc::clone(&worker), strays));
    let installer = worker.installer.clone();
    // Not awaited: nobody waits for what killed workers left.
    drop(tokio::task::spawn_blocking(move || installer.sweep()));
    shutdown.cancelled().await;
    worker.drain();
    tokio::time::sleep(LAME_DUCK).await;
    shards::drain(shards, &worker, worker.config.drain_timeout).await;
    reload.abort();
    drop((scrapes, following));
    worker.registry.close().await;
    worker.launcher.finished().await;
    let jailer = worker.jailer.clone();
    let _ = tokio::task::spawn_blocking(move || {
        jailer.look_after();
        jailer.close();
    })
    .await;
    Ok(())
}

fn build(config: Config, functions: Functions, strays: Arc<Strays>) -> std::io::Result<Arc<Worker>> {
    let launcher = Launcher::new(config.supervisor.clone(), strays);
    let surroundings = Surroundings::new(&config)?;
    // Both probe the system with child processes, at the same time: a worker that restarts is missed meanwhile.
    let (interpreter, jailer) = std::thread::scope(|scope| {
        let interpreter = scope.spawn(|| interpreter::find(config.python.as_deref()));
        let jailer = Jailer::new(&config, surroundings.clone());
        let not_found = |_| Err(PythonError::NotFound(PathBuf::new(), std::io::ErrorKind::Other));
        (interpreter.join().unwrap_or_else(not_found), jailer)
    });
    let offers = watch::Sender::new(0);
    let changes = offers.subscribe();
    let interpreter = usable(interpreter);
    let of_servers = Environments::new(interpreter.clone(), config.packages.clone(), launcher.clone(), offers.clone());
    let roster = Arc::new(Roster::default());
    let host = (launcher.clone(), surroundings.clone(), jailer.clone());
    let trial = Trial::new(host, config.redactor.clone());
    let installer = Installer::new(&config, trial, of_servers.clone(), Arc::clone(&roster));
    let host = (surroundings, jailer.clone());
    let runners = runners(&config, functions, (interpreter, of_servers, installer.clone()), &launcher, host, offers);
    let series = Arc::new(Skills::new(config.measured_skills));
    let metrics = Metrics::new(Arc::clone(&series));
    let folders = (config.skill_dirs.clone(), config.allowed_root.clone());
    let registry = Registry::load(folders, (runners, roster), changes, config.queue, series);
    Ok(Worker::new(config, (registry, installer), launcher, jailer, metrics))
}

fn usable(found: Result<Interpreter, PythonError>) -> Option<Interpreter> {
    match &found {
        Ok(it) => tracing::info!(path = %it.path.display(), version = ?it.version, "python found"),
        Err(error) => tracing::warn!(%error, "Python was not found: cli:python skills are unavailable"),
    }
    found.ok()
}

fn runners(
    config: &Config,
    functions: Functions,
    (interpreter, of_servers, installer): (Option<Interpreter>, Environments, Installer),
    launcher: &Launcher,
    (surroundings, jailer): (Surroundings, Jailer),
    offers: watch::Sender<u64>,
) -> Runners {
    let host = (surroundings.clone(), jailer.clone());
    let sandbox = Sandbox::new(config, interpreter.clone(), launcher.clone(), host.clone(), offers.clone());
    let python = Python::new(config, interpreter, launcher.clone(), host, offers.clone());
    let mcp = |environments| {
        let host = (launcher.clone(), surroundings.clone(), jailer.clone());
        Arc::new(Mcp::new(host, environments, config.redactor.clone(), offers.clone()))
    };
    let (mcp_stdio, mcp_http) = (mcp(Some(of_servers)), mcp(None));
    // By its path: in a jail, `/proc/self/exe` is another program.
    let binary = std::fs::read_link(&config.supervisor).unwrap_or_else(|_| config.supervisor.clone());
    let host = Host::new(launcher.clone(), surroundings.clone(), jailer.clone(), binary);
    Runners::new([
        ("cli:python", Arc::new(python) as Arc<dyn runner::Runner>),
        ("cli:exec", Arc::new(Executable::new(launcher.clone(), surroundings.clone(), jailer))),
        ("http", Arc::new(Http::new())),
        ("docker", Arc::new(Docker::new(config, launcher.clone(), surroundings, offers))),
        ("mcp:stdio", mcp_stdio),
        ("mcp:http", mcp_http),
        (
            "inproc",
            Arc::new(InProcess::new(functions, host, installer, (config.research.clone(), config.browser.clone()))),
        ),
        (
            "agent",
            Arc::new(InGateway(
                "the skill is an agent, which runs in the gateway and not on a worker: update the gateway",
            )),
        ),
        (ANSWERED[0], Arc::new(InGateway("the gateway answers this skill, and not a worker: update the gateway"))),
        ("session:python", Arc::new(sandbox)),
    ])
}

/// Reloads skills that changed on disk, kills strays, and frees expired artifacts, for as long as the worker lives.
async fn keep_up_to_date(worker: Arc<Worker>, strays: Arc<Strays>) {
    let mut ticks = tokio::time::interval(worker.config.reload_interval);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let watched = Arc::new(Watched::begin(Folder::at(&worker.config.tools.folder)));
    let mut looked_after = Instant::now();
    loop {
        tokio::select! {
            _ = ticks.tick() => {}
            () = worker.registry.hurried() => {}
        }
        worker.artifacts.expire(Instant::now());
        let metrics = Arc::clone(&worker);
        let (worker, strays, jailer) = (Arc::clone(&worker), Arc::clone(&strays), worker.jailer.clone());
        let watched = Arc::clone(&watched);
        let reload = move || {
            worker.registry.reload();
            watched.look();
        };
        if let Err(error) = tokio::task::spawn_blocking(reload).await {
            tracing::error!(%error, "the skill folders could not be reloaded");
        }
        let found = tokio::task::spawn_blocking(move || strays.look()).await.unwrap_or_default();
        metrics.metrics.strays(found);
        if found > 0 {
            tracing::warn!(found, "killed processes that had escaped their supervisor");
        }
        if found > 0 || looked_after.elapsed() > LOOK_AFTER {
            looked_after = Instant::now();
            let _ = tokio::task::spawn_blocking(move || jailer.look_after()).await;
        }
    }
}
