//! Dispatches to the commands.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use crate::args::{Args, Command};
use crate::contexts;
use crate::exit::Failure;
use crate::serve;
use crate::settings::{Raw, Settings, unknown_variables};
use crate::terminal::complain;

mod certs;
mod chat;
mod check;
mod circuits;
mod client;
mod completions;
mod config;
mod context;
mod describe;
mod doctor;
mod drain;
mod health;
mod init;
mod input;
mod invoke;
mod keys;
mod logs;
mod mcp;
mod new;
mod pin;
mod poll;
mod replay;
mod runtime;
mod scaffold;
mod skills;
mod tools;
mod trace;
mod traces;
mod workers;

use runtime::block_on;

/// Runs the command. `started` is when the process started.
pub(crate) fn run(args: Args, started: Instant) -> Result<ExitCode, Failure> {
    let command = args.command;
    match &command {
        Command::Completions { shell } => return completions::run(*shell),
        // There is no project yet whose settings could be read.
        Command::Init(args) => return init::run(args),
        Command::Certs(args) => return certs::run(args),
        _ => {}
    }
    if let Command::Context(args) = command {
        return context::run(args);
    }
    let mut raw = Raw::read(&command.overrides(), |name| std::env::var_os(name), Path::new("."));
    if command.client().is_some() || matches!(command, Command::Config(_)) {
        contexts::apply(&mut raw)?;
    }
    let is_server = matches!(command, Command::Up(_) | Command::Gateway(_) | Command::Agent(_) | Command::Worker(_))
        || matches!(&command, Command::Mcp(it) if it.command.is_none() && it.served.gateway.is_none());
    // Servers log them.
    for variable in unknown_variables().iter().filter(|_| !is_server) {
        complain(&format!("openskill: unknown variable ignored: {variable}\n"));
    }
    if let Command::Config(config) = &command {
        return config::run(config, &raw);
    }
    let settings = Settings::resolve(&raw)?;
    match command {
        Command::Up(args) => serve::up::run(&args, &settings, &raw, started),
        Command::Gateway(_) => serve::gateway::run(&settings, &raw),
        Command::Agent(_) => serve::agent::run(&settings, &raw),
        Command::Worker(args) => serve::worker::run(&args, &settings, &raw),
        Command::Mcp(args) => mcp::run(args, &settings, &raw),
        Command::New(args) => new::run(&args, &settings),
        Command::Pin(args) => pin::run(&args, &settings, &raw),
        Command::Check(args) => check::run(&args, &settings, &raw),
        Command::Doctor(args) => doctor::run(&args, &settings, &raw),
        Command::Chat(args) => block_on(chat::run(&args, &settings)),
        Command::Skills(args) => block_on(skills::run(&args, &settings)),
        Command::Tools(args) => tools::run(&args, &settings, &raw),
        Command::Invoke(args) => block_on(invoke::run(&args, &settings)),
        Command::Workers(args) => block_on(workers::run(&args, &settings)),
        Command::Circuits(args) => block_on(circuits::run(&args, &settings)),
        Command::Describe(args) => block_on(describe::run(&args, &settings)),
        Command::Logs(args) => block_on(logs::run(&args, &settings)),
        Command::Drain(args) => block_on(drain::run(&args, &settings)),
        Command::Traces(args) => block_on(traces::run(&args, &settings)),
        Command::Trace(args) => block_on(trace::run(&args, &settings)),
        Command::Replay(args) => block_on(replay::run(&args, &settings)),
        Command::Keys(args) => keys::run(args, &settings),
        Command::Health(health) => block_on(health::run(&health, &settings)),
        Command::Init(_)
        | Command::Certs(_)
        | Command::Context(_)
        | Command::Config(_)
        | Command::Completions { .. } => Ok(ExitCode::SUCCESS),
    }
}
