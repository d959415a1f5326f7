//! The runtimes of commands. They use this thread only.

use tokio::runtime::{Builder, Runtime};

use crate::exit::Failure;

/// Creates a runtime.
pub(crate) fn single_threaded() -> Result<Runtime, Failure> {
    Builder::new_current_thread().enable_all().build().map_err(Failure::system("starting a runtime"))
}

/// Runs a short-lived command on a new runtime.
pub(crate) fn block_on(work: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    single_threaded()?.block_on(work)
}
