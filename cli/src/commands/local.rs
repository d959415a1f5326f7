//! The commands that run skills on this machine, or write skill files. They need no gateway.

use std::time::Instant;

use crate::args::{LocalCommand, ManifestCommand};
use crate::exit::Failure;
use crate::serve;
use crate::settings::{RawSettings, Settings};

mod add;
mod check;
mod doctor;
mod functions;
pub(super) mod init;
mod new;
mod run;
mod sdk;
pub(super) mod tools;

/// Runs the command. `started` is the start time of the process.
pub(super) fn run(
    command: &LocalCommand,
    settings: &Settings,
    raw: &RawSettings,
    started: Instant,
) -> Result<(), Failure> {
    match command {
        LocalCommand::Up(args) => serve::up::run(args, settings, raw, started),
        LocalCommand::Worker(args) => serve::worker::run(args, settings, raw),
        LocalCommand::Init(args) => init::run(args),
        LocalCommand::New(args) => new::run(args, settings),
        LocalCommand::Add(args) => add::run(args, settings, raw),
        LocalCommand::Run(args) => run::run(args, settings, raw),
        LocalCommand::Check(args) => check::run(args, settings, raw),
        LocalCommand::Doctor(args) => doctor::run(args, settings, raw),
        LocalCommand::Sdk(command) => sdk::run(command, raw),
        LocalCommand::Manifest(ManifestCommand::Show(args)) => functions::show(args, settings, raw),
        LocalCommand::Pin(args) => check::pin(args, settings, raw),
    }
}
