//! The commands that run skills on this machine, or write them. None of them asks a gateway.

use std::process::ExitCode;
use std::time::Instant;

use crate::args::Local;
use crate::exit::Failure;
use crate::serve;
use crate::settings::{Raw, Settings};

mod check;
mod doctor;
pub(super) mod init;
mod new;
mod pin;
mod scaffold;
pub(super) mod tools;

/// Runs the command. `started` is when the process started.
pub(super) fn run(command: &Local, settings: &Settings, raw: &Raw, started: Instant) -> Result<ExitCode, Failure> {
    match command {
        Local::Up(args) => serve::up::run(args, settings, raw, started),
        Local::Worker(args) => serve::worker::run(args, settings, raw),
        Local::Init(args) => init::run(args),
        Local::New(args) => new::run(args, settings),
        Local::Check(args) => check::run(args, settings, raw),
        Local::Doctor(args) => doctor::run(args, settings, raw),
        Local::Pin(args) => pin::run(args, settings, raw),
    }
}
