//! The helper processes that a worker starts from this binary, to isolate work from the worker itself.

use std::process::ExitCode;

use openskill_builtins::browser::host_process;
use openskill_sandbox::supervise;
use openskill_worker::runners::docker::sentinel;

/// Runs the helper process that the first argument names. Returns `None` if the argument names something else.
pub(crate) fn main() -> Option<ExitCode> {
    let first = std::env::args_os().nth(1)?;
    match first.to_str()? {
        supervise::ARGUMENT => Some(supervise::main()),
        sentinel::ARGUMENT => Some(sentinel::main()),
        host_process::ARGUMENT => Some(host_process::main()),
        _ => None,
    }
}
