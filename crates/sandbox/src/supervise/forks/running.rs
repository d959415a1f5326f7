//! The process of a running call.

use std::os::fd::{AsFd as _, OwnedFd};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::super::counted::UsageWatch;
use crate::bounds::TreeBounds;
use crate::protocol::Exit;
use crate::readiness::is_readable;
use crate::tree;

/// The maximum length of a temporary directory's name, in bytes.
const MAX_FOLDER_BYTES: usize = 64;

/// The process of a call.
pub(super) struct RunningCall {
    pub(super) pid: i32,
    /// Process 1 of its namespace, if it has its own namespace.
    pub(super) first: Option<i32>,
    /// A pidfd of the process, because its id may be reused. `None` if the process exited before it was known.
    process: Option<OwnedFd>,
    /// Whether it was killed. If so, its orphans get no time to exit.
    pub(super) killed: bool,
    /// Polls its usage and enforces its limits.
    usage_watch: Option<UsageWatch<'static>>,
    /// Explains the limit that it exceeded, if any.
    pub(super) exceeded: Option<String>,
    /// Its temporary directory, inside the fork server's.
    pub(super) folder: String,
}

impl RunningCall {
    /// Records a child that claims to have a call. Returns `None` if it is not a child of `parents`. This check is
    /// necessary because this process kills what it is told to, and has more rights than the sender.
    pub(super) fn new(
        pid: i32,
        first: i32,
        parents: &[i32],
        folder: String,
        bounds: Option<TreeBounds>,
    ) -> Option<Self> {
        let plain = folder.len() <= MAX_FOLDER_BYTES && folder.bytes().all(|byte| byte.is_ascii_hexdigit());
        let process = Pid::from_raw(pid).filter(|_| pid > 1 && plain)?;
        let process = pidfd_open(process, PidfdFlags::empty()).ok();
        let is_child = |pid| tree::parent(pid).is_some_and(|parent| parents.contains(&parent));
        let first = Some(first).filter(|first| *first > 1 && is_child(*first));
        // The first process's memory belongs to the fork server and is shared with the call.
        let usage_watch = bounds.map(|bounds| UsageWatch::for_call(bounds, pid, first));
        let running = Self { pid, first, process, killed: false, usage_watch, exceeded: None, folder };
        let is_child = is_child(pid);
        // A process that has exited may no longer have a parent, but can't be killed either.
        (is_child || running.has_exited()).then_some(running)
    }

    /// Returns whether this is the call's process or process 1 of its namespace.
    pub(super) fn is(&self, pid: i32) -> bool {
        self.pid == pid || self.first == Some(pid)
    }

    /// Kills the call if it exceeds a limit.
    pub(super) fn look(&mut self) {
        if self.exceeded.is_none() {
            self.exceeded = self.usage_watch.as_mut().and_then(UsageWatch::look);
            if self.exceeded.is_some() {
                self.kill();
            }
        }
    }

    /// Explains an exit by SIGXCPU.
    pub(super) fn explain(&self, exit: Exit) -> Option<String> {
        self.usage_watch.as_ref().and_then(|it| it.explain(exit))
    }

    pub(super) fn kill(&mut self) {
        self.killed = true;
        if let Some(process) = &self.process {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
    }

    /// Sends SIGINT to the call's process.
    pub(super) fn interrupt(&self) {
        if let Some(process) = &self.process {
            let _ = pidfd_send_signal(process, Signal::INT);
        }
    }

    pub(super) fn has_exited(&self) -> bool {
        self.process.as_ref().is_none_or(|it| is_readable(it.as_fd()))
    }
}
