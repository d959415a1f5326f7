//! The process of a call.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::tree;

/// The process of a call.
pub(super) struct Running {
    pub(super) pid: i32,
    /// The process itself: its number may be another's by the time it is used. None: it had ended before it was heard of.
    process: Option<OwnedFd>,
    /// Nobody waits for its end.
    pub(super) killed: bool,
    /// The folder for its temporary files, within the fork server's.
    pub(super) folder: String,
}

impl Running {
    /// What a child says of itself: that it has a call. What is said of a process that is no child of `parents` is not
    /// believed: this process may kill it, and has more rights than whoever said so.
    pub(super) fn heard_of(pid: i32, parents: &[i32], folder: &str) -> Option<Self> {
        let plain = folder.len() <= 64 && folder.bytes().all(|byte| byte.is_ascii_hexdigit());
        let process = Pid::from_raw(pid).filter(|_| pid > 1 && plain)?;
        let process = pidfd_open(process, PidfdFlags::empty()).ok();
        let running = Self { pid, process, killed: false, folder: folder.to_owned() };
        let is_child = tree::parent(pid).is_some_and(|parent| parents.contains(&parent));
        // One that has ended may have no parent any more, and can't be killed either.
        (is_child || running.has_ended()).then_some(running)
    }

    /// Ends it.
    pub(super) fn kill(&self) {
        if let Some(process) = &self.process {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = |process| poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0);
        self.process.as_ref().is_none_or(ready)
    }
}
