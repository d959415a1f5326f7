//! Ends a process tree: reaps processes that exit on their own, and kills all others.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, getpid, wait};

use crate::jail::namespaces::kill_all;
use crate::protocol::Exit;
use crate::readiness::{is_readable, readable};
use crate::tree::{self, Snapshot};

/// How long orphans may take to exit on their own. Python's helper processes exit shortly after the script.
pub(super) const GRACE: Duration = Duration::from_millis(200);

/// The pause between two checks of the remaining processes.
pub(super) const STEP: Duration = Duration::from_millis(2);

/// After this time, the supervisor reports and exits. The remaining processes can't be killed, because they hang
/// in the kernel.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Reaps a limited number of exited children, because more may exit as fast. Returns whether any child is left.
pub(super) fn reap_exited(mut record: impl FnMut(Pid, Exit)) -> bool {
    for _ in 0..1000 {
        match wait(WaitOptions::NOHANG) {
            Ok(Some((pid, status))) => record(pid, Exit::from_wait_status(status.as_raw())),
            Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
    true
}

/// Ends a process tree and tracks its progress.
pub(super) struct TreeEnd {
    pub(super) child: Pid,
    pub(super) exit: Option<Exit>,
    pub(super) killed: Vec<i32>,
}

impl TreeEnd {
    /// Reaps processes that exit on their own within `patience`, then kills and reaps the others until none is
    /// left. Repeats, to find processes that were forked meanwhile. Returns whether all have ended.
    pub(super) fn reap_all(&mut self, control: &OwnedFd, patience: Duration) -> bool {
        let begun = Instant::now();
        while self.reap() {
            if begun.elapsed() >= GIVE_UP {
                return false;
            }
            // The control socket is readable after the worker has hung up.
            if begun.elapsed() >= patience || is_readable(control.as_fd()) {
                self.kill();
            }
            let _ = readable([], Some(STEP));
        }
        true
    }

    /// Reaps exited children. Returns whether any child is left.
    pub(super) fn reap(&mut self) -> bool {
        reap_exited(|pid, exit| {
            if pid == self.child {
                self.exit = Some(exit);
            }
        })
    }

    pub(super) fn kill(&mut self) {
        if tree::own_pid() == 1 {
            // First count the others, then kill them all at once.
            let others = tree::own_children().into_iter().filter(|pid| *pid != self.child.as_raw_nonzero().get());
            let new: Vec<_> = others.filter(|pid| !self.killed.contains(pid) && !tree::is_dead(*pid)).collect();
            self.killed.extend(new);
            kill_all();
            return;
        }
        for process in Snapshot::take().descendants(getpid().as_raw_nonzero().get()) {
            if process.zombie {
                continue;
            }
            tree::kill(process.pid);
            if process.pid != self.child.as_raw_nonzero().get() && !self.killed.contains(&process.pid) {
                self.killed.push(process.pid);
            }
        }
    }
}
