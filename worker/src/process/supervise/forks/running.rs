//! The process of a call.

use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::counted::Measured;
use crate::process::bounds::Bounds;
use crate::process::protocol::Exit;
use crate::process::tree;

/// The longest name of a temporary directory.
const MAX_FOLDER_BYTES: usize = 64;

/// The process of a call.
pub(super) struct Running {
    pub(super) pid: i32,
    /// Process 1 of its namespace, if it has one of its own.
    pub(super) first: Option<i32>,
    /// The process itself: its id may be another's by the time it is used. None: it had exited before it was known.
    process: Option<OwnedFd>,
    /// It was killed: nobody waits for what it leaves behind.
    pub(super) killed: bool,
    /// Looks whether it stays within its bounds.
    measured: Option<Measured<'static>>,
    /// What it had too much of.
    pub(super) exceeded: Option<String>,
    /// Its temporary directory, within the fork server's.
    pub(super) folder: String,
}

impl Running {
    /// A child that says it has a call. None: it is no child of `parents`. This process may kill what it is told of, and has
    /// more rights than whoever told it.
    pub(super) fn new(
        (pid, first): (i32, i32),
        parents: &[i32],
        folder: String,
        bounds: Option<Bounds>,
    ) -> Option<Self> {
        let plain = folder.len() <= MAX_FOLDER_BYTES && folder.bytes().all(|byte| byte.is_ascii_hexdigit());
        let process = Pid::from_raw(pid).filter(|_| pid > 1 && plain)?;
        let process = pidfd_open(process, PidfdFlags::empty()).ok();
        let is_child = |pid| tree::parent(pid).is_some_and(|parent| parents.contains(&parent));
        let first = Some(first).filter(|first| *first > 1 && is_child(*first));
        // The memory of the first one is the fork server's, which the call shares.
        let measured = bounds.zip(Pid::from_raw(pid)).map(|(bounds, root)| Measured::of_call(bounds, root, first));
        let running = Self { pid, first, process, killed: false, measured, exceeded: None, folder };
        let is_child = is_child(pid);
        // One that has exited may have no parent any more, and can't be killed either.
        (is_child || running.has_exited()).then_some(running)
    }

    /// Whether a process belongs to the call.
    pub(super) fn is(&self, pid: i32) -> bool {
        self.pid == pid || self.first == Some(pid)
    }

    /// Kills it if it has too much of something.
    pub(super) fn look(&mut self) {
        if self.exceeded.is_none() {
            self.exceeded = self.measured.as_mut().and_then(Measured::look);
            if self.exceeded.is_some() {
                self.kill();
            }
        }
    }

    /// What explains that a signal of the kernel ended it.
    pub(super) fn explain(&self, exit: Exit) -> Option<String> {
        self.measured.as_ref().and_then(|it| it.explain(exit))
    }

    pub(super) fn kill(&mut self) {
        self.killed = true;
        if let Some(process) = &self.process {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    /// Sends SIGINT.
    pub(super) fn interrupt(&self) {
        if let Some(process) = &self.process {
            let _ = pidfd_send_signal(process, Signal::INT);
        }
    }

    pub(super) fn has_exited(&self) -> bool {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = |process| poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready > 0);
        self.process.as_ref().is_none_or(ready)
    }
}
