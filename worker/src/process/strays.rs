//! Strays: children this process did not start. They are orphans whose supervisor or worker was killed, or any orphan if
//! this is process 1 of a container. A stray is killed with all its descendants, and reaped.
//!
//! The sentinel of a killed worker is the exception. It removes the worker's containers, so the parent of workers spares it for
//! [`SPARED_FOR`]. Any skill could start a sentinel: only one is spared for each worker, and its time counts from the worker's end.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

use super::tree::{self, Snapshot, own_pid};

/// The one argument that makes the openskill binary a sentinel: the end of a dead worker's containers.
pub const SENTINEL: &str = "sentinel";

/// How long a sentinel has for its work once its worker is dead.
pub const SPARED_FOR: Duration = Duration::from_secs(10);

/// Knows the children that this process started, and kills all others.
#[derive(Debug)]
pub struct Strays {
    /// How many of our children have, or had until a moment ago, this process id: ids are used again.
    known: Mutex<HashMap<i32, u32>>,
    /// The workers whose sentinels are spared. None: our children are no workers.
    workers: Option<Mutex<Vec<Watched>>>,
}

/// A worker, and the one sentinel it may leave behind.
#[derive(Debug)]
struct Watched {
    worker: i32,
    /// When its sentinel's time is over. Counted from when the worker was seen to be dead.
    until: Option<Instant>,
    sentinel: Option<i32>,
}

impl Watched {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}

impl Strays {
    /// Makes this process the subreaper of its descendants. Children it has already, from before it became this program,
    /// are not strays.
    ///
    /// # Errors
    /// The system has no subreapers.
    pub fn adopt() -> std::io::Result<Self> {
        let before = Snapshot::take().children(own_pid()).map(|child| (child.pid, 1)).collect();
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { known: Mutex::new(before), workers: None })
    }

    /// All that is started from here on are workers: when one of them dies, one sentinel is spared for [`SPARED_FOR`].
    pub fn of_workers(self) -> Self {
        Self { workers: Some(Mutex::default()), ..self }
    }

    /// Starts a child that is no stray. `start` gives its process id beside whatever it made.
    ///
    /// # Errors
    /// What `start` says.
    pub fn start<T>(&self, start: impl FnOnce() -> std::io::Result<(T, Option<u32>)>) -> std::io::Result<T> {
        // Held while the child starts, so that no sweep finds it unknown.
        let mut known = self.lock();
        let (child, pid) = start()?;
        if let Some(pid) = pid {
            *known.entry(pid as i32).or_default() += 1;
            if let Some(workers) = &self.workers {
                lock(workers).push(Watched { worker: pid as i32, until: None, sentinel: None });
            }
        }
        Ok(child)
    }

    /// Forgets a child that has ended and was waited for.
    pub fn ended(&self, pid: u32) {
        if let Some(workers) = &self.workers {
            // Its id may be another process's from here on.
            bury(&mut lock(workers), Instant::now(), |worker| worker == pid as i32);
        }
        let mut known = self.lock();
        if let Some(count) = known.get_mut(&(pid as i32)) {
            *count -= 1;
            if *count == 0 {
                known.remove(&(pid as i32));
            }
        }
    }

    /// [Sweeps](Self::sweep) if there is a stray. Cheap while there is none. How many strays were alive.
    pub fn look(&self) -> usize {
        let children = tree::children_of_all_threads();
        // In this order, as in a sweep.
        let known = self.lock();
        if children.iter().all(|child| known.contains_key(child)) {
            return 0;
        }
        drop(known);
        self.sweep()
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
        for stray in &strays {
            if spared.contains(&stray.pid) {
                // A true one has no children.
                snapshot.descendants(stray.pid).iter().for_each(|process| tree::kill(process.pid));
                continue;
            }
            if !stray.zombie {
                alive += 1;
                snapshot.descendants(stray.pid).iter().for_each(|process| tree::kill(process.pid));
                tree::kill(stray.pid);
            }
            let _ = waitpid(Pid::from_raw(stray.pid), WaitOptions::NOHANG);
        }
        alive
    }

    /// Which of these are sentinels of dead workers, in their time.
    fn spare(&self, strays: impl Iterator<Item = i32>) -> Vec<i32> {
        let Some(workers) = &self.workers else { return Vec::new() };
        let sentinels: Vec<_> = strays.filter(|pid| is_sentinel(*pid)).collect();
        let (mut workers, now) = (lock(workers), Instant::now());
        // Its orphans come before anybody has waited for it.
        bury(&mut workers, now, |worker| matches!(tree::state(worker), None | Some('Z' | 'X')));
        spare(&mut workers, &sentinels, now)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<i32, u32>> {
        lock(&self.known)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The time of a dead worker's sentinel begins; a worker whose sentinel's time is over is forgotten.
fn bury(workers: &mut Vec<Watched>, now: Instant, is_dead: impl Fn(i32) -> bool) {
    for it in workers.iter_mut().filter(|it| it.until.is_none() && is_dead(it.worker)) {
        it.until = Some(now + SPARED_FOR);
    }
    workers.retain(|it| !it.is_over(now));
}

/// One for each dead worker, and always the same.
fn spare(workers: &mut Vec<Watched>, sentinels: &[i32], now: Instant) -> Vec<i32> {
    workers.retain(|it| !it.is_over(now));
    let mut spared = Vec::new();
    for pid in sentinels {
        let its_own = workers.iter().position(|it| it.sentinel == Some(*pid));
        let free = || workers.iter().position(|it| it.until.is_some() && it.sentinel.is_none());
        if let Some(place) = its_own.or_else(free) {
            workers[place].sentinel = Some(*pid);
            spared.push(*pid);
        }
    }
    spared
}

/// Whether a process is our own binary in this role. A skill may start one as well.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentinel_of_a_dead_worker_is_spared_for_ten_seconds() {
        let now = Instant::now();
        let watched = |worker| Watched { worker, until: None, sentinel: None };
        let mut workers = vec![watched(1), watched(2)];
        assert!(spare(&mut workers, &[10], now).is_empty(), "all workers live");
        bury(&mut workers, now, |worker| worker == 1);
        assert_eq!(spare(&mut workers, &[10, 11], now), [10]);
        // Neither a look, nor a fork, nor a second death of the same worker gives more time.
        let later = now + SPARED_FOR / 2;
        bury(&mut workers, later, |worker| worker == 1);
        assert_eq!(spare(&mut workers, &[12, 10], later), [10]);
        assert!(spare(&mut workers, &[12], later).is_empty());
        assert!(spare(&mut workers, &[10, 12], now + SPARED_FOR).is_empty());
        assert_eq!(workers.len(), 1);
    }

    #[test]
    fn without_workers_no_sentinel_is_spared() {
        let strays = Strays { known: Mutex::default(), workers: None };
        assert!(strays.spare([own_pid()].into_iter()).is_empty());
    }
}
