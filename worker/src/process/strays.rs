//! Children this process did not start: orphans that came to it because their supervisor was killed, or because it is
//! process 1 of a container. Whatever is not known by its id is a stray, is killed, and is waited for.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

use super::tree;

/// The children that are known, and the end of all others.
#[derive(Debug, Default)]
pub struct Strays {
    known: Mutex<HashSet<i32>>,
}

impl Strays {
    /// Makes this process the one to which orphans of its descendants come.
    ///
    /// # Errors
    /// The system has no subreapers.
    pub fn adopt_orphans() -> std::io::Result<()> {
        Ok(set_child_subreaper(Some(getpid()))?)
    }

    /// Starts a child and knows it. `start` gives its process id beside whatever it made.
    ///
    /// # Errors
    /// What `start` says.
    pub fn start<T>(&self, start: impl FnOnce() -> std::io::Result<(T, Option<u32>)>) -> std::io::Result<T> {
        // Held while the child starts, so that no sweep finds it unknown.
        let mut known = self.lock();
        let (child, pid) = start()?;
        known.extend(pid.map(|pid| pid as i32));
        Ok(child)
    }

    /// Forgets a child that has ended and was waited for.
    pub fn ended(&self, pid: u32) {
        self.lock().remove(&(pid as i32));
    }

    /// Kills every stray with all its descendants, and reaps those that are dead. How many were alive.
    pub fn sweep(&self) -> usize {
        let known = self.lock();
        let mut alive = 0;
        for stray in tree::children(getpid().as_raw_nonzero().get()) {
            if known.contains(&stray.pid) {
                continue;
            }
            if !stray.zombie {
                alive += 1;
                tree::descendants(stray.pid).iter().for_each(|process| tree::kill(process.pid));
                tree::kill(stray.pid);
            }
            let _ = waitpid(Pid::from_raw(stray.pid), WaitOptions::NOHANG);
        }
        alive
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<i32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
