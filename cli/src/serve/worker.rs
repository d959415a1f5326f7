//! `openskill worker`.

use std::net::TcpListener;
use std::process::ExitCode;

use openskill_worker::Functions;
use rustix::process::{DumpableBehavior, Pid, Signal, getppid, set_dumpable_behavior, set_parent_process_death_signal};

use crate::args::Worker;
use crate::exit::Failure;
use crate::settings::{Raw, Settings};

/// Binds the address for metrics, if one is set.
fn bind_metrics(settings: &Settings) -> Result<Option<TcpListener>, Failure> {
    let Some(address) = settings.worker_metrics_listen else { return Ok(None) };
    let what = format!(
        "listening on {address} (set another address with --metrics-listen or OPENSKILL_WORKER_METRICS_LISTEN)"
    );
    let listener = openskill_net::listen::bind_tcp(address, 1).map_err(Failure::system(what))?.pop();
    let address = listener.as_ref().and_then(|it| it.local_addr().ok()).unwrap_or(address);
    tracing::info!(%address, "metrics of the worker");
    Ok(listener)
}

pub(crate) fn run(args: &Worker, settings: &Settings, raw: &Raw) -> Result<ExitCode, Failure> {
    if let Some(parent) = args.exit_with_parent {
        let failed = |error: rustix::io::Errno| Failure::system("watching the parent process")(error.into());
        set_parent_process_death_signal(Some(Signal::TERM)).map_err(failed)?;
        // The parent may have exited before the line above.
        if getppid().map(Pid::as_raw_pid) != Some(parent) {
            return Ok(ExitCode::SUCCESS);
        }
    }
    // Skills may run as the same user, and must not read this process's memory or environment.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let mesh = settings.tls.mesh_acceptor(raw)?;
    let config = super::worker_config(settings, raw)?;
    super::run(settings, "worker", |shutdown, tracer| async move {
        let config = openskill_worker::Config { mesh, tracer, ..config };
        let what = format!(
            "listening on {} (set another address with --listen or OPENSKILL_WORKER_LISTEN)",
            settings.worker_listen
        );
        let listeners = openskill_net::listen::bind(&settings.worker_listen, super::shards(settings))
            .map_err(Failure::system(what))?;
        tracing::info!(address = %settings.worker_listen, worker_id = %config.worker_id, "worker listening");
        let scrapes = bind_metrics(settings)?;
        openskill_worker::run(config, Functions::default(), listeners, scrapes, shutdown)
            .await
            .map_err(Failure::system("running the worker"))
    })
}
