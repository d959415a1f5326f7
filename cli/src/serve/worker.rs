//! `openskill worker`: runs a worker.

use std::path::PathBuf;

use openskill_worker::Functions;
use rustix::process::{DumpableBehavior, Pid, Signal, getppid, set_dumpable_behavior, set_parent_process_death_signal};

use crate::args::WorkerArgs;
use crate::exit::Failure;
use crate::settings::{RawSettings, Settings};
use crate::telemetry;

pub(crate) fn run(args: &WorkerArgs, settings: &Settings, raw: &RawSettings) -> Result<(), Failure> {
    if let Some(parent) = args.exit_with_parent {
        let failed = |error: rustix::io::Errno| Failure::system("watching the parent process")(error.into());
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(failed)?;
        // The parent may have exited before the signal was installed.
        if getppid().map(Pid::as_raw_pid) != Some(parent) {
            return Ok(());
        }
    }
    // Skills may run as the same user, and must not read this process's memory or environment.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let mesh = settings.tls.mesh_acceptor(raw)?;
    let config = config(settings, raw)?;
    super::run(settings, "worker", async move |shutdown, tracer| {
        let config = openskill_worker::Config { mesh, tracer, ..config };
        let what = format!(
            "listening on {} (set another address with --listen or OPENSKILL_WORKER_LISTEN)",
            settings.worker.listen
        );
        let listeners = openskill_net::listen::bind(&settings.worker.listen, super::shards(settings))
            .map_err(Failure::system(what))?;
        tracing::info!(address = %settings.worker.listen, worker_id = %config.worker_id, "worker listening");
        let metrics = settings.worker.metrics_listen;
        let scrapes = super::bind_one(metrics, "--metrics-listen", "OPENSKILL_WORKER_METRICS_LISTEN")?;
        let scrapes = scrapes.map(|(listener, address)| {
            tracing::info!(%address, "serving worker metrics");
            listener
        });
        openskill_worker::run(config, Functions::default(), listeners, scrapes, shutdown)
            .await
            .map_err(Failure::system("running the worker"))
    })
}

/// Builds the worker's configuration from the settings.
pub(crate) fn config(settings: &Settings, raw: &RawSettings) -> Result<openskill_worker::Config, Failure> {
    config_with_root(settings, raw, settings.worker.project_root(raw)?)
}

/// Builds the worker's configuration for an allowed root, which need not be that of a project.
pub(crate) fn config_with_root(
    settings: &Settings,
    raw: &RawSettings,
    allowed_root: PathBuf,
) -> Result<openskill_worker::Config, Failure> {
    let own = &settings.worker;
    let here = std::env::current_dir().map_err(Failure::system("finding the current directory"))?;
    let tools = own.tools(&here, &allowed_root, raw)?;
    let absolute = |folder: &PathBuf| here.join(folder).components().collect();
    let mut skill_dirs: Vec<PathBuf> = own.config.skill_dirs.iter().map(absolute).collect();
    let shipped = own.unpack_sets(&allowed_root, raw)?;
    skill_dirs.extend(shipped.iter().map(|it| it.folder.clone()));
    // This directory comes last, so that installed tools never replace skills of other directories.
    if !skill_dirs.contains(&tools.folder) {
        skill_dirs.push(tools.folder.clone());
    }
    let redactor = telemetry::redactor(settings)?;
    Ok(openskill_worker::Config { skill_dirs, shipped, allowed_root, tools, redactor, ..own.config.clone() })
}
