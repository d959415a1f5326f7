//! Waits for descriptors in processes without a runtime.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until one of the descriptors is readable or closed, a signal arrives, or the time is over. Without a timeout,
/// it waits forever. Returns which of them are.
pub(crate) fn readable<const N: usize>(
    descriptors: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> std::io::Result<[bool; N]> {
    let mut waited = descriptors.map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
    let timeout = timeout.map(|it| Timespec { tv_sec: it.as_secs() as i64, tv_nsec: it.subsec_nanos().into() });
    match poll(&mut waited, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(waited.map(|it| !it.revents().is_empty())),
        Err(error) => Err(error.into()),
    }
}

/// Returns whether a descriptor is readable or closed.
pub(crate) fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    matches!(readable([descriptor], Some(Duration::ZERO)), Ok([true]))
}
