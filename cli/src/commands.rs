//! Dispatches to the commands.

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use clap::CommandFactory as _;

use crate::args::{Args, Command};
use crate::exit::Failure;
use crate::serve;
use crate::settings::{Raw, Settings};
use crate::terminal::say;

mod chat;
mod check;
mod circuits;
mod client;
mod config;
mod doctor;
mod drain;
mod health;
mod input;
mod invoke;
mod new;
mod pin;
mod replay;
mod runtime;
mod skills;
mod tools;
mod trace;
mod traces;
mod workers;

use runtime::block_on;

/// Runs the command. `started` is when the process started.
pub(crate) fn run(args: Args, started: Instant) -> Result<ExitCode, Failure> {
    let command = args.command;
    if let Command::Completions { shell } = command {
        let mut text = Vec::new();
        clap_complete::generate(shell, &mut Args::command(), "openskill", &mut text);
        say(&String::from_utf8_lossy(&text));
        return Ok(ExitCode::SUCCESS);
    }
    let raw = Raw::read(&command.overrides(), |name| std::env::var_os(name), Path::new("."));
    if let Command::Config(config) = &command {
        return config::run(config, &raw);
    }
    let settings = Settings::resolve(&raw)?;
    match command {
        Command::Up(args) => serve::up::run(&args, &settings, &raw, started),
        Command::Gateway(_) => serve::gateway::run(&settings, &raw),
        Command::Agent(_) => serve::agent::run(&settings, &raw),
        Command::Worker(args) => serve::worker::run(&args, &settings, &raw),
        Command::New(args) => new::run(&args, &settings),
        Command::Pin(args) => pin::run(&args, &settings, &raw),
        Command::Check(args) => check::run(&args, &settings, &raw),
        Command::Doctor(args) => doctor::run(&args, &settings, &raw),
        Command::Chat(args) => block_on(chat::run(&args, &settings)),
        Command::Skills(args) => block_on(skills::run(&args, &settings)),
        Command::Tools(args) => block_on(tools::run(&args, &settings)),
        Command::Invoke(args) => block_on(invoke::run(&args, &settings)),
        Command::Workers(args) => block_on(workers::run(&args, &settings)),
        Command::Circuits(args) => block_on(circuits::run(&args, &settings)),
        Command::Drain(args) => block_on(drain::run(&args, &settings)),
        Command::Traces(args) => block_on(traces::run(&args, &settings)),
        Command::Trace(args) => block_on(trace::run(&args, &settings)),
        Command::Replay(args) => block_on(replay::run(&args, &settings)),
        Command::Health(_) => block_on(health::run(&settings)),
        Command::Config(_) | Command::Completions { .. } => Ok(ExitCode::SUCCESS),
    }
}
