//! The end of a process tree: reaped where it exits by itself, killed where it does not.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions, getpid, wait};

use crate::process::jail::namespaces::kill_all;
use crate::process::protocol::Exit;
use crate::process::tree::{self, Snapshot};

/// How long orphans may take to end by themselves: Python's own helper processes do, a moment after the script.
pub(super) const GRACE: Duration = Duration::from_millis(200);

/// Between two looks at what is left.
pub(super) const STEP: Duration = Duration::from_millis(2);

/// After this long, what is left can't be killed (it hangs in the kernel): report and exit.
const GIVE_UP: Duration = Duration::from_secs(5);

/// The end of a process tree.
pub(super) struct End {
    pub(super) child: Pid,
    pub(super) exit: Option<Exit>,
    pub(super) killed: Vec<i32>,
}

impl End {
    /// Reaps what exits by itself within `patience`, then kills and reaps the rest until none is left: what forks while it
    /// is being killed is found at the next look. Whether all are gone.
    pub(super) fn of_all(&mut self, control: &OwnedFd, patience: Duration) -> bool {
        let begun = Instant::now();
        while self.reap() {
            if begun.elapsed() >= GIVE_UP {
                return false;
            }
            if begun.elapsed() >= patience || hung_up(control) {
                self.kill();
            }
            pause(STEP);
        }
        true
    }

    /// Reaps those that have exited, a bounded number of them: more may exit as fast. Whether any child is left.
    pub(super) fn reap(&mut self) -> bool {
        for _ in 0..1000 {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.child => self.exit = Some(Exit::of_wait_status(status.as_raw())),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    pub(super) fn kill(&mut self) {
        if tree::own_pid() == 1 {
            // The others are counted, then all end at once.
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

fn hung_up(control: impl AsFd) -> bool {
    let mut waited = [PollFd::new(&control, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut waited, Some(&now)).is_ok() && !waited[0].revents().is_empty()
}

fn pause(step: Duration) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() };
    let _ = poll(&mut [], Some(&timeout));
}
