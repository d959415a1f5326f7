//! `openskill worker`: runs a worker.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::ExitCode;

use openskill_worker::Functions;
use rustix::process::{DumpableBehavior, Pid, Signal, getppid, set_dumpable_behavior, set_parent_process_death_signal};

use crate::args::WorkerArgs;
use crate::exit::Failure;
use crate::settings::{RawSettings, Settings};
use crate::telemetry;

/// This binary, even if the file has been replaced on disk.
pub(super) const OWN_BINARY: &str = "/proc/self/exe";

/// Binds the metrics address. Returns `None` if no such address is set.
fn bind_metrics(settings: &Settings) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = settings.worker.metrics_listen else { return Ok(None) };
    let what = format!(
        "listening on {address} (set another address with --metrics-listen or OPENSKILL_WORKER_METRICS_LISTEN)"
    );
    let listener = openskill_net::listen::bind_tcp(address, 1).map_err(Failure::system(what))?.pop();
    let address = listener.as_ref().and_then(|it| it.local_addr().ok()).unwrap_or(address);
    tracing::info!(%address, "serving worker metrics");
    Ok(listener)
}

pub(crate) fn run(args: &WorkerArgs, settings: &Settings, raw: &RawSettings) -> Result<ExitCode, Failure> {
    if let Some(parent) = args.exit_with_parent {
        let failed = |error: rustix::io::Errno| Failure::system("watching the parent process")(error.into());
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(failed)?;
        // The parent may have exited before the signal was installed.
        if getppid().map(Pid::as_raw_pid) != Some(parent) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    // Skills may run as the same user, and must not read this process's memory or environment.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let mesh = settings.tls.mesh_acceptor(raw)?;
    let config = config(settings, raw)?;
    super::run(settings, "worker", |shutdown, tracer| async move {
        let config = openskill_worker::Config { mesh, tracer, ..config };
        let what = format!(
            "listening on {} (set another address with --listen or OPENSKILL_WORKER_LISTEN)",
            settings.worker.listen
        );
        let listeners = openskill_net::listen::bind(&settings.worker.listen, super::shards(settings))
            .map_err(Failure::system(what))?;
        tracing::info!(address = %settings.worker.listen, worker_id = %config.worker_id, "worker listening");
        let scrapes = bind_metrics(settings)?;
        openskill_worker::run(config, Functions::default(), listeners, scrapes, shutdown)
            .await
            .map_err(Failure::system("running the worker"))
    })
}

/// Builds the worker's configuration from the settings.
pub(crate) fn config(settings: &Settings, raw: &RawSettings) -> Result<openskill_worker::Config, Failure> {
    let own = &settings.worker;
    let here = std::env::current_dir().map_err(Failure::system("finding the current directory"))?;
    let allowed_root = own.project_root(raw)?;
    let tools = own.tools(&here, &allowed_root, raw)?;
    let mut skill_dirs: Vec<PathBuf> =
        own.skill_dirs.iter().map(|folder| here.join(folder).components().collect()).collect();
    // This directory comes last, so that installed tools never replace skills of other directories.
    if !skill_dirs.contains(&tools.folder) {
        skill_dirs.push(tools.folder.clone());
    }
    Ok(openskill_worker::Config {
        worker_id: settings.worker_id.clone(),
        skill_dirs,
        allowed_root,
        tools,
        concurrency: own.concurrency,
        reserve: own.reserve.unwrap_or(own.concurrency / 4),
        queue: own.queue,
        drain_timeout: settings.drain_timeout,
        python: Some(own.python.clone()),
        packages: own.packages.clone(),
        supervisor: PathBuf::from(OWN_BINARY),
        sessions: own.sessions,
        skill_users: own.skill_users,
        least_jail: own.least_jail,
        docker_host: own.docker_host.clone(),
        browser: own.browser.clone(),
        research: own.research.clone(),
        reload_interval: own.reload,
        idle: own.idle,
        measured_skills: settings.measured_skills,
        debug: settings.debug,
        redactor: telemetry::redactor(settings)?,
        // Only a worker that serves calls needs these.
        mesh: None,
        tracer: None,
    })
}
