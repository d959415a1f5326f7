//! Children this process did not start: orphans that came to it because their supervisor or their worker was killed, or
//! because it is process 1 of a container. Whatever is not known is a stray, is killed with all its descendants, and is
//! waited for. But for a sentinel: the orphan of a worker that was killed, it removes what that worker had running
//! elsewhere, and is left alone for a while.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

use super::tree::{self, Snapshot};

/// The one argument that makes the openskill binary a sentinel: the end of a dead worker's containers.
pub const SENTINEL: &str = "sentinel";

/// How long a sentinel has for its work once its worker is dead.
pub const SPARED_FOR: Duration = Duration::from_secs(10);

/// The children that are known, and the end of all others.
#[derive(Debug)]
pub struct Strays {
    /// How many of our children have, or had until a moment ago, this process id: ids are used again.
    known: Mutex<HashMap<i32, u32>>,
    /// The orphans that are left alone, and since when.
    spared: Mutex<HashMap<i32, Instant>>,
}

impl Strays {
    /// Makes this process the one to which orphans of its descendants come. The children it has already, from before
    /// it became this program, are not its business.
    ///
    /// # Errors
    /// The system has no subreapers.
    pub fn adopt() -> std::io::Result<Self> {
        let before = Snapshot::take().children(own_pid()).map(|child| (child.pid, 1)).collect();
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { known: Mutex::new(before), spared: Mutex::default() })
    }

    /// Starts a child and knows it. `start` gives its process id beside whatever it made.
    ///
    /// # Errors
    /// What `start` says.
    pub fn start<T>(&self, start: impl FnOnce() -> std::io::Result<(T, Option<u32>)>) -> std::io::Result<T> {
        // Held while the child starts, so that no sweep finds it unknown.
        let mut known = self.lock();
        let (child, pid) = start()?;
        if let Some(pid) = pid {
            *known.entry(pid as i32).or_default() += 1;
        }
        Ok(child)
    }

    /// Forgets a child that has ended and was waited for.
    pub fn ended(&self, pid: u32) {
        let mut known = self.lock();
        if let Some(count) = known.get_mut(&(pid as i32)) {
            *count -= 1;
            if *count == 0 {
                known.remove(&(pid as i32));
            }
        }
    }

    /// Kills every stray with all its descendants, and reaps those that are dead. How many were alive. Reads all of
    /// `/proc` once: not for a thread that serves.
    pub fn sweep(&self) -> usize {
        let snapshot = Snapshot::take();
        // After the snapshot: a child that was just being started in it is known by now.
        let known = self.lock();
        let strays: Vec<_> = snapshot.children(own_pid()).filter(|child| !known.contains_key(&child.pid)).collect();
        let spared = self.spare(strays.iter().filter(|it| !it.zombie).map(|it| it.pid));
        let mut alive = 0;
        for stray in strays.iter().filter(|it| !spared.contains(&it.pid)) {
            if !stray.zombie {
                alive += 1;
                snapshot.descendants(stray.pid).iter().for_each(|process| tree::kill(process.pid));
                tree::kill(stray.pid);
            }
            let _ = waitpid(Pid::from_raw(stray.pid), WaitOptions::NOHANG);
        }
        alive
    }

    /// Which of these are sentinels whose time is not over.
    fn spare(&self, strays: impl Iterator<Item = i32>) -> Vec<i32> {
        let mut spared = self.spared.lock().unwrap_or_else(PoisonError::into_inner);
        let sentinels: Vec<_> = strays.filter(|pid| is_sentinel(*pid)).collect();
        spared.retain(|pid, _| sentinels.contains(pid));
        let in_time = |pid: &i32| spared.entry(*pid).or_insert_with(Instant::now).elapsed() < SPARED_FOR;
        sentinels.into_iter().filter(in_time).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, u32>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether a process is our own binary in this role. A skill may start one as well, and gains a few seconds by it.
fn is_sentinel(pid: i32) -> bool {
    let file = |process: &str| {
        let found = std::fs::metadata(format!("/proc/{process}/exe")).ok()?;
        Some((found.dev(), found.ino()))
    };
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let argument = arguments.split(|it| *it == 0).nth(1);
    argument == Some(SENTINEL.as_bytes()) && file("self").is_some_and(|own| file(&pid.to_string()) == Some(own))
}

/// Whether a process is stopped (SIGSTOP), so that it can neither serve nor notice anything.
pub fn is_stopped(pid: u32) -> bool {
    tree::state(pid as i32).is_some_and(|state| state == 'T')
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}
