//! Dispatches to the commands.

use std::path::Path;
use std::time::Instant;

use crate::args::{Args, Command};
#[cfg(feature = "worker")]
use crate::args::{LocalCommand, ToolsArgs};
use crate::complete;
use crate::contexts;
use crate::exit::Failure;
use crate::runtime::block_on;
use crate::serve;
use crate::settings::{RawSettings, Settings, project, unknown_variables};
use crate::terminal::print_err;

mod cancel;
mod certs;
mod chat;
mod circuits;
mod client;
mod config;
mod context;
mod describe;
mod drain;
mod health;
mod input;
mod invoke;
mod keys;
#[cfg(feature = "worker")]
mod local;
mod logs;
mod mcp;
mod operations;
mod poll;
mod ps;
mod replay;
mod skills;
mod submit;
mod tools;
mod trace;
mod traces;
mod traffic;
mod workers;

/// Runs the command. `started` is the start time of the process.
#[cfg_attr(not(feature = "worker"), expect(unused_variables, reason = "only `up` says how long it took"))]
pub(crate) fn run(args: Args, started: Instant) -> Result<(), Failure> {
    let command = args.command;
    match &command {
        Command::Completions { shell } => return complete::print_script(*shell),
        // `init` runs before a project exists, so there are no settings to read.
        #[cfg(feature = "worker")]
        Command::Local(LocalCommand::Init(args)) => return local::init::run(args),
        _ => {}
    }
    if let Command::Context(args) = command {
        return context::run(args);
    }
    let environment = |name: &str| match &args.config {
        Some(file) if name == project::VARIABLE => Some(file.clone().into_os_string()),
        _ => std::env::var_os(name),
    };
    let mut raw = RawSettings::read(&command.overrides(), environment, Path::new("."));
    if command.client().is_some() || matches!(command, Command::Config(_)) {
        contexts::apply(&mut raw)?;
    }
    let is_server = match &command {
        Command::Gateway(_) | Command::Agent(_) => true,
        Command::Mcp(it) => it.command.is_none() && it.served.gateway.is_none(),
        #[cfg(feature = "worker")]
        Command::Local(it) => matches!(it, LocalCommand::Up(_) | LocalCommand::Worker(_)),
        _ => false,
    };
    // Servers log unknown variables instead of printing them.
    for variable in unknown_variables().iter().filter(|_| !is_server) {
        print_err(&format!("openskill: unknown variable ignored: {variable}\n"));
    }
    for warning in raw.warnings.iter().filter(|_| !serve::is_worker_of_up()) {
        print_err(&format!("openskill: {warning}\n"));
    }
    match &command {
        Command::Config(config) => return config::run(config, &raw),
        Command::Certs(args) => return certs::run(args, &raw),
        _ => {}
    }
    let settings = Settings::resolve(&raw)?;
    match command {
        #[cfg(feature = "worker")]
        Command::Local(command) => local::run(&command, &settings, &raw, started),
        Command::Gateway(_) => serve::gateway::run(&settings, &raw),
        Command::Agent(_) => serve::agent::run(&settings, &raw),
        Command::Mcp(args) => mcp::run(args, &settings, &raw),
        Command::Chat(args) => block_on(chat::run(&args, &settings)),
        Command::Skills(args) => block_on(skills::run(&args, &settings)),
        #[cfg(feature = "worker")]
        Command::Tools(ToolsArgs { command: Some(command), .. }) => local::tools::run(&command, &settings, &raw),
        Command::Tools(args) => block_on(tools::run(&args.export, &settings)),
        Command::Invoke(args) => block_on(invoke::run(&args, &settings)),
        Command::Submit(args) => block_on(submit::run(&args, &settings)),
        Command::Operations(command) => block_on(operations::run(&command, &settings)),
        Command::Workers(args) => block_on(workers::run(&args, &settings.for_operators())),
        Command::Circuits(args) => block_on(circuits::run(&args, &settings.for_operators())),
        Command::Describe(args) => block_on(describe::run(&args, &settings)),
        Command::Logs(args) => block_on(logs::run(&args, &settings.for_operators())),
        Command::Drain(args) => block_on(drain::run(&args, &settings.for_operators())),
        Command::Traffic(args) => block_on(traffic::run(&args, &settings)),
        Command::Rollback(args) => block_on(traffic::roll_back(&args, &settings)),
        Command::Ps(args) => block_on(ps::run(&args, &settings.for_operators())),
        Command::Cancel(args) => block_on(cancel::run(&args, &settings.for_operators())),
        Command::Traces(args) => block_on(traces::run(&args, &settings.for_operators())),
        Command::Trace(args) => block_on(trace::run(&args, &settings.for_operators())),
        Command::Replay(args) => block_on(replay::run(&args, &settings)),
        Command::Keys(args) => keys::run(args, &settings),
        Command::Health(health) => block_on(health::run(&health, &settings)),
        Command::Certs(_) | Command::Context(_) | Command::Config(_) | Command::Completions { .. } => Ok(()),
    }
}
