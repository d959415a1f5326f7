//! What the supervisor tells the worker.

use std::os::fd::OwnedFd;

use crate::process::packet;
use crate::process::protocol::{Notice, ONLY_CALL, Report};

pub(super) fn report(control: &OwnedFd, report: Report) -> std::io::Result<()> {
    tell(control, &Notice::Ended { call: ONLY_CALL, report });
    Ok(())
}

pub(super) fn not_started(error: &std::io::Error) -> Report {
    Report::NotStarted { errno: error.raw_os_error().unwrap_or(0) }
}

/// Tells the worker. One that has hung up does not listen any more: that is no failure.
pub(super) fn tell(control: &OwnedFd, notice: &Notice) {
    let _ = packet::send(control, notice);
}
