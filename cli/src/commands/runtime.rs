//! The runtime of short-lived commands.

use std::process::ExitCode;

use crate::exit::Failure;

/// Runs a short-lived command on a new single-threaded runtime.
pub(super) fn block_on(work: impl Future<Output = Result<ExitCode, Failure>>) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(Failure::system("starting a runtime"))?;
    runtime.block_on(work)
}
