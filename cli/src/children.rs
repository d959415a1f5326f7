//! The processes that a worker starts from this binary: what they do should not happen in the worker itself.

use std::process::ExitCode;

use openskill_worker::process::supervise;
use openskill_worker::runners::docker::sentinel;
use openskill_worker::runners::in_process::browser::host_process;

/// Runs the one that the first argument names, if it names one.
pub(crate) fn main() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    match first.to_str()? {
        supervise::ARGUMENT => Some(supervise::main()),
        sentinel::ARGUMENT => Some(sentinel::main()),
        host_process::ARGUMENT => Some(host_process::main()),
        _ => None,
    }
}
