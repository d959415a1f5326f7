//! Sends the supervisor's messages to the worker.

use std::io;
use std::os::fd::OwnedFd;

use crate::packet;
use crate::protocol::{Notice, ONLY_CALL, RunReport};

/// Reports the end of the run to the worker.
pub(super) fn report(control: &OwnedFd, report: RunReport) -> io::Result<()> {
    tell(control, &Notice::Ended { call: ONLY_CALL, report });
    Ok(())
}

pub(super) fn not_started(error: &io::Error) -> RunReport {
    RunReport::NotStarted { errno: error.raw_os_error().unwrap_or(0) }
}

/// Sends a notice to the worker. Ignores the error if the worker has hung up.
pub(super) fn tell(control: &OwnedFd, notice: &Notice) {
    let _ = packet::send(control, notice);
}
