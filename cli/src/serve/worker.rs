//! `openskill worker`.

use std::process::ExitCode;

use openskill_worker::Functions;
use rustix::process::{DumpableBehavior, Pid, Signal, getppid, set_dumpable_behavior, set_parent_process_death_signal};

use crate::args::Worker;
use crate::exit::Failure;
use crate::settings::{Raw, Settings};

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
    let config = super::worker_config(settings, raw)?;
    super::run(settings, "worker", |shutdown| async move {
        let what = format!(
            "listening on {} (set another address with --listen or OPENSKILL_WORKER_LISTEN)",
            settings.worker_listen
        );
        let listeners = openskill_net::listen::bind(&settings.worker_listen, super::shards(settings))
            .map_err(Failure::system(what))?;
        tracing::info!(address = %settings.worker_listen, worker_id = %config.worker_id, "worker listening");
        openskill_worker::run(config, Functions::default(), listeners, shutdown)
            .await
            .map_err(Failure::system("running the worker"))
    })
}
