//! `openskill`: the gateway, the workers and the command line in one binary.
//!
//! - [`args`]: the grammar of the command line; [`overrides`]: maps its flags to settings
//! - [`settings`]: from flags, environment, `.env`, `openskill.toml` and defaults
//! - [`telemetry`]: logs and traces of the process
//! - [`metrics_export`]: exports the metrics of the process
//! - [`collector`]: the OTLP client of both
//! - [`serve`]: the long-running commands: `gateway`, `worker`, `up`, `agent`
//! - [`stdio`]: MCP over stdin and stdout
//! - [`commands`]: the other commands
//! - [`channel`]: a connection to a gateway, with the credentials of the settings; [`contexts`]: named gateways
//! - [`complete`]: shell completion
//! - [`background`]: threads of the process
//! - [`exit`]: errors and their exit codes; [`runtime`]: the runtimes of commands
//! - [`mod@children`]: the processes that a worker starts from this binary
//! - [`terminal`], [`listing`], [`table`], [`pretty`], [`yaml`]: output for people and programs
//!
//! The feature `worker` is on by default. Without it, the binary has the gateway and its clients, and nothing that runs skills.

mod args;
mod background;
mod channel;
#[cfg(feature = "worker")]
mod children;
mod collector;
mod commands;
mod complete;
mod contexts;
mod exit;
mod listing;
mod metrics_export;
mod new_files;
mod overrides;
mod pretty;
mod runtime;
mod serve;
mod settings;
mod stdio;
mod table;
mod telemetry;
mod terminal;
mod yaml;

use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory as _, Parser as _};
use clap_complete::CompleteEnv;

/// A call makes about two hundred small allocations. With the system's allocator, they took an eighth of the gateway's
/// instructions.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let started = Instant::now();
    // Workers and supervisors start as /proc/self/exe, so `ps` would show them as `exe`.
    let _ = rustix::thread::set_name(c"openskill");
    // A supervisor starts for every run of a skill, so nothing below may delay it.
    #[cfg(feature = "worker")]
    if let Some(code) = children::main() {
        return code;
    }
    match CompleteEnv::with_factory(args::Args::command).var(complete::VARIABLE).try_complete(std::env::args_os(), None)
    {
        Ok(false) => {}
        Ok(true) => return ExitCode::SUCCESS,
        Err(error) => {
            terminal::print_err(&format!("openskill: {error}"));
            return ExitCode::from(2);
        }
    }
    #[cfg(not(feature = "worker"))]
    if let Some(failure) = args::refuse_unavailable(std::env::args_os().skip(1)) {
        return failure.report();
    }
    let args = args::Args::parse();
    match commands::run(args, started) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}
