//! `openskill`: the gateway, the workers and the command line in one binary.
//!
//! - [`args`]: the grammar of the command line; [`overrides`]: its flags that are settings
//! - [`settings`]: from flags, environment, `.env`, `openskill.toml` and defaults
//! - [`telemetry`]: logs and traces of the process
//! - [`metrics_export`]: exports the metrics of the process
//! - [`collector`]: the OTLP client of both
//! - [`serve`]: the long-running commands: `gateway`, `worker`, `up`
//! - [`commands`]: the other commands
//! - [`exit`]: errors and their exit codes
//! - [`terminal`], [`table`], [`pretty`]: output for people

mod args;
mod collector;
mod commands;
mod exit;
mod metrics_export;
mod overrides;
mod pretty;
mod serve;
mod settings;
mod signals;
mod table;
mod telemetry;
mod terminal;

use std::process::ExitCode;
use std::time::Instant;

use clap::Parser as _;

/// A call makes some two hundred small allocations: the system's allocator took an eighth of the gateway's instructions.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let started = Instant::now();
    // Workers and supervisors start as /proc/self/exe, and `ps` would show them as `exe`.
    let _ = rustix::thread::set_name(c"openskill");
    // A supervisor starts for every run of a skill, so it must not wait for anything below.
    if std::env::args_os().nth(1).is_some_and(|first| first == openskill_worker::process::supervise::ARGUMENT) {
        return openskill_worker::process::supervise::main();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == openskill_worker::runners::docker::sentinel::ARGUMENT) {
        return openskill_worker::runners::docker::sentinel::main();
    }
    let args = args::Args::parse();
    match commands::run(args, started) {
        Ok(code) => code,
        Err(failure) => failure.report(),
    }
}
