//! Strays are children that this process did not start: orphans whose supervisor or worker was killed or, if this
//! is process 1 of a container, any orphan. This module kills strays with all their descendants, and reaps them.
//!
//! A killed worker's sentinel is an exception. It removes the worker's containers, so the workers' parent spares
//! it for [`SPARED_FOR`]. Because any skill could start a sentinel, only one is spared per worker, and its time
//! starts when the worker ends.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, waitpid};

use super::tree::{self, Snapshot, own_pid};

/// The argument that makes the openskill binary a sentinel, which removes a dead worker's containers.
pub const SENTINEL: &str = "sentinel";

/// How long a sentinel may run after its worker died.
pub const SPARED_FOR: Duration = Duration::from_secs(10);

/// Tracks the children that this process started, and kills all others.
#[derive(Debug)]
pub struct Strays {
    /// The number of known children with this process id. Ids are reused, so several children may have had it
    /// until a moment ago.
    known: Mutex<HashMap<i32, u32>>,
    /// The workers whose sentinels are spared. `None` if the children are not workers.
    workers: Option<Mutex<Vec<WatchedWorker>>>,
}

/// A worker, and the only sentinel that it may leave behind.
#[derive(Debug)]
struct WatchedWorker {
    worker: i32,
    /// The time at which its sentinel must have ended. Set when the worker is found dead.
    until: Option<Instant>,
    sentinel: Option<i32>,
}

impl WatchedWorker {
    fn is_over(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| now >= until)
    }
}

impl Strays {
    /// Makes this process the subreaper of its descendants. Children that it already has, because another program
    /// ran in this process before, are not strays.
    ///
    /// # Errors
    /// Fails if the system does not support subreapers.
    pub fn adopt() -> std::io::Result<Self> {
        let before = Snapshot::take().children(own_pid()).map(|child| (child.pid, 1)).collect();
        set_child_subreaper(Some(getpid()))?;
        Ok(Self { known: Mutex::new(before), workers: None })
    }

    /// Declares that all children that are started from now on are workers. When one dies, its sentinel is spared
    /// for [`SPARED_FOR`].
    pub fn for_workers(self) -> Self {
        Self { workers: Some(Mutex::default()), ..self }
    }

    /// Starts a child that is not a stray. `start` returns its result and the child's process id.
    ///
    /// # Errors
    /// Returns the error of `start`.
    pub fn start<T>(&self, start: impl FnOnce() -> std::io::Result<(T, Option<u32>)>) -> std::io::Result<T> {
        // Hold the lock while the child starts, so that no sweep considers it a stray.
        let mut known = self.known.lock();
        let (child, pid) = start()?;
        if let Some(pid) = pid {
            *known.entry(pid as i32).or_default() += 1;
            if let Some(workers) = &self.workers {
                workers.lock().push(WatchedWorker { worker: pid as i32, until: None, sentinel: None });
            }
        }
        Ok(child)
    }

    /// Forgets a child that has ended and was reaped.
    pub fn forget(&self, pid: u32) {
        if let Some(workers) = &self.workers {
            // From here on, another process may get the same id.
            bury(&mut workers.lock(), Instant::now(), |worker| worker == pid as i32);
        }
        let mut known = self.known.lock();
        if let Some(count) = known.get_mut(&(pid as i32)) {
            *count -= 1;
            if *count == 0 {
                known.remove(&(pid as i32));
            }
        }
    }

    /// Calls [`sweep`](Self::sweep) if a stray exists. Cheap otherwise. Returns the number of live strays.
    pub fn look(&self) -> usize {
        let children = tree::own_children();
        // Acquire the locks in the same order as a sweep.
        let known = self.known.lock();
        if children.iter().all(|child| known.contains_key(child)) {
            return 0;
        }
        drop(known);
        self.sweep()
    }

    /// Kills all strays with their descendants, and reaps dead ones. Returns the number of live ones. Reads all of
    /// `/proc` once, so do not call it on a thread that serves requests.
    pub fn sweep(&self) -> usize {
        let snapshot = Snapshot::take();
        // Lock after the snapshot, so that a child that was starting meanwhile is known.
        let known = self.known.lock();
        let strays: Vec<_> = snapshot.children(own_pid()).filter(|child| !known.contains_key(&child.pid)).collect();
        let spared = self.spare(strays.iter().filter(|it| !it.zombie).map(|it| it.pid));
        let mut alive = 0;
        for stray in &strays {
            if spared.contains(&stray.pid) {
                // A genuine sentinel has no children.
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

    /// Returns the processes that are sentinels of dead workers and whose time is not over.
    fn spare(&self, strays: impl Iterator<Item = i32>) -> Vec<i32> {
        let Some(workers) = &self.workers else { return Vec::new() };
        let sentinels: Vec<_> = strays.filter(|pid| is_sentinel(*pid)).collect();
        let (mut workers, now) = (workers.lock(), Instant::now());
        // A worker's orphans may arrive before its parent has reaped it.
        bury(&mut workers, now, |worker| matches!(tree::state(worker), None | Some('Z' | 'X')));
        spare(&mut workers, &sentinels, now)
    }
}

/// Starts the time of dead workers' sentinels, and forgets workers whose sentinel's time is over.
fn bury(workers: &mut Vec<WatchedWorker>, now: Instant, is_dead: impl Fn(i32) -> bool) {
    for it in workers.iter_mut().filter(|it| it.until.is_none() && is_dead(it.worker)) {
        it.until = Some(now + SPARED_FOR);
    }
    workers.retain(|it| !it.is_over(now));
}

/// Chooses one sentinel per dead worker, always the same.
fn spare(workers: &mut Vec<WatchedWorker>, sentinels: &[i32], now: Instant) -> Vec<i32> {
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

/// Returns whether a process is this binary as a sentinel. A skill may start one too.
fn is_sentinel(pid: i32) -> bool {
    let arguments = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let argument = arguments.split(|it| *it == 0).nth(1);
    argument == Some(SENTINEL.as_bytes()) && tree::runs_own_program(pid)
}

/// Returns whether a process is stopped (SIGSTOP), so that it can neither serve requests nor react.
pub fn is_stopped(pid: u32) -> bool {
    tree::state(pid as i32).is_some_and(|state| state == 'T')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sentinel_of_a_dead_worker_is_spared_for_ten_seconds() {
        let now = Instant::now();
        let watched = |worker| WatchedWorker { worker, until: None, sentinel: None };
        let mut workers = vec![watched(1), watched(2)];
        assert!(spare(&mut workers, &[10], now).is_empty(), "all workers live");
        bury(&mut workers, now, |worker| worker == 1);
        assert_eq!(spare(&mut workers, &[10, 11], now), [10]);
        // Later checks, a fork, or another death of the same worker do not extend the time.
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
