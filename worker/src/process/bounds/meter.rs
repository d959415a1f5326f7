//! Counts what a process tree uses where no control group does.
//!
//! It sees the memory that processes have mapped. What it cannot see, other walls must refuse where the kind is `Measured`:
//!
//! - a memfd (memfd_create(2)), a file on tmpfs or a System V segment (shmget(2)) that is not mapped
//! - a shared mapping, as far as no process has touched it, or has unmapped it or given it back
//! - buffers of pipes and sockets
//!
//! Of CPU time it misses what [`spent`](super::spent) says. And it is late: between two looks, a tree may take as much as the machine can give it in that time.
//!
//! The work of one look is bounded: processes beyond the bound are not looked at. Only if what all processes have, summed,
//! is beyond the bound, a closer look tells what they share. It costs about a millisecond for a few hundred megabytes, and
//! as long as nothing grows it is taken a tenth of the time at most.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use super::amounts::{Bounds, Usage};
use super::proc::{Proc, Status, Times};
use super::spent::Spent;
use crate::process::tree;

/// How long a process may share all that its parent has. A child of vfork(2) has its parent's memory until it becomes
/// another program, and counting it twice would end skills that only start one.
const NEWBORN: Duration = Duration::from_millis(100);

/// A closer look waits this many times as long as the last one took.
const REST: u32 = 10;

/// Counts one process tree, look by look.
#[derive(Debug)]
pub(crate) struct Meter {
    bounds: Bounds,
    proc: Proc,
    /// Where the tree begins. None: all that this `/proc` shows.
    root: Option<Root>,
    /// When a process was seen first.
    seen: HashMap<i32, Instant>,
    closer: Option<Closer>,
    /// None: CPU time has no bound.
    spent: Option<Spent>,
}

/// Where a tree begins.
#[derive(Debug, Clone, Copy)]
struct Root {
    /// A process that counts with its descendants.
    pid: i32,
    /// One whose descendants count without it: its memory is another's.
    above: Option<i32>,
}

/// What a closer look has found.
#[derive(Debug, Clone, Copy)]
struct Closer {
    /// What each process has, summed: more than all have, as some is shared.
    most: u64,
    exact: u64,
    /// When the next one may be.
    again: Instant,
}

/// A process at one look.
#[derive(Debug, Clone, Copy)]
struct Look {
    pid: i32,
    status: Status,
    /// Counts only as far as it has more than its parent.
    newborn: bool,
}

impl Meter {
    /// For a process with all its descendants, and for those of `above`, which does not count itself.
    ///
    /// # Errors
    /// There is no `/proc`.
    pub(crate) fn of_tree(bounds: Bounds, pid: i32, above: Option<i32>) -> io::Result<Self> {
        Ok(Self::new(bounds, Proc::own()?, Some(Root { pid, above })))
    }

    #[cfg(test)]
    /// For all processes of a namespace: `proc` is a `/proc` that was mounted in it.
    pub(crate) fn of_namespace(bounds: Bounds, proc: std::os::fd::OwnedFd) -> Self {
        Self::new(bounds, Proc::new(proc), None)
    }

    fn new(bounds: Bounds, proc: Proc, root: Option<Root>) -> Self {
        let spent = bounds.cpu().map(|_| Spent::default());
        Self { bounds, proc, root, seen: HashMap::new(), closer: None, spent }
    }

    /// One look. If there are too many processes, nothing else is looked at and given as zero.
    ///
    /// # Errors
    /// `/proc` can't be read.
    pub(crate) fn measure(&mut self) -> io::Result<Usage> {
        let most = usize::try_from(self.bounds.processes).unwrap_or(usize::MAX).saturating_add(1);
        let processes = match self.root {
            Some(Root { pid, above }) => {
                let mut found = self.proc.descendants(pid, most)?;
                // Its own list is long only for a tree that is beyond its bound.
                let orphans = above
                    .map_or_else(|| Ok(Vec::new()), |above| self.proc.descendants(above, most.saturating_add(1)))?;
                found.extend(orphans.into_iter().skip(1));
                found
            }
            None => self.proc.processes(most)?,
        };
        let cpu = self.cpu(&processes);
        Ok(Usage { cpu, ..self.measure_listed(&processes, Instant::now()) })
    }

    /// The CPU time used so far, as a look at these processes, parents before their children, shows it.
    fn cpu(&mut self, processes: &[i32]) -> Duration {
        let Some(spent) = &mut self.spent else { return Duration::ZERO };
        let above = self.root.and_then(|root| root.above);
        // This process, and the one above, only wait for what is of the tree.
        let is_host = |pid| Some(pid) == above || pid == tree::own_pid();
        let read = |pid: i32| {
            let times = self.proc.times(pid)?;
            Some((pid, if is_host(pid) { Times { own: Duration::ZERO, ..times } } else { times }))
        };
        let mut look: Vec<_> = above.into_iter().chain(processes.iter().copied()).filter_map(read).collect();
        // One that was not listed, as it came to another parent meanwhile, has not gone.
        let listed: HashSet<i32> = look.iter().map(|(pid, _)| *pid).collect();
        let missed = spent.known().filter(|(pid, _)| !listed.contains(pid));
        look.extend(missed.filter_map(|(pid, before)| read(pid).filter(|(_, now)| now.started == before.started)));
        spent.add(look)
    }

    /// One look at these processes, by their ids in the `/proc` of this meter, and not at their CPU time.
    pub(crate) fn measure_listed(&mut self, processes: &[i32], now: Instant) -> Usage {
        if processes.len() as u64 > self.bounds.processes {
            return Usage { processes: processes.len() as u64, ..Usage::default() };
        }
        self.seen.retain(|pid, _| processes.contains(pid));
        let looks: Vec<Look> = processes
            .iter()
            .filter_map(|pid| {
                let first = *self.seen.entry(*pid).or_insert(now);
                let newborn = now.saturating_duration_since(first) < NEWBORN;
                Some(Look { pid: *pid, status: self.proc.status(*pid)?, newborn })
            })
            .collect();
        let threads = looks.iter().map(|look| look.status.threads.max(1)).sum();
        if threads > self.bounds.processes {
            return Usage { processes: threads, ..Usage::default() };
        }
        Usage { memory_bytes: self.memory(&looks, now), processes: threads, ..Usage::default() }
    }

    fn memory(&mut self, looks: &[Look], now: Instant) -> u64 {
        let most = sum(looks, |look| look.status.memory.unwrap_or(0));
        if most <= self.bounds.memory_bytes {
            return most;
        }
        if let Some(closer) = self.closer
            && now < closer.again
        {
            let grown = closer.exact.saturating_add(most.saturating_sub(closer.most));
            if grown <= self.bounds.memory_bytes {
                return grown;
            }
        }
        let begun = Instant::now();
        let exact = sum(looks, |look| match (look.status.memory, self.proc.share(look.pid)) {
            (None, _) => 0,
            (_, Some(share)) => share.saturating_add(look.status.tables),
            (Some(memory), None) => memory,
        });
        self.closer = Some(Closer { most, exact, again: now + begun.elapsed() * REST });
        exact
    }
}

/// The memory of all, where a newborn counts as far as it has more than its parent.
fn sum(looks: &[Look], memory: impl Fn(&Look) -> u64) -> u64 {
    let all: HashMap<i32, u64> = looks.iter().map(|look| (look.pid, memory(look))).collect();
    let counted = looks.iter().map(|look| {
        let own = all.get(&look.pid).copied().unwrap_or(0);
        let parent = all.get(&look.status.parent).copied().filter(|_| look.newborn);
        own.saturating_sub(parent.unwrap_or(0))
    });
    counted.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(pid: i32, parent: i32, memory: u64, newborn: bool) -> Look {
        let status = Status { parent, threads: 1, memory: Some(memory), tables: 0 };
        Look { pid, status, newborn }
    }

    #[test]
    fn a_newborn_counts_as_far_as_it_has_more_than_its_parent() {
        let memory = |look: &Look| look.status.memory.unwrap_or(0);
        let parent = look(1, 0, 300, true);
        assert_eq!(sum(&[parent, look(2, 1, 300, true)], memory), 300);
        assert_eq!(sum(&[parent, look(2, 1, 350, true)], memory), 350);
        assert_eq!(sum(&[parent, look(2, 1, 10, true)], memory), 300);
        assert_eq!(sum(&[parent, look(2, 1, 300, false)], memory), 600, "it had its time");
        assert_eq!(sum(&[parent, look(2, 9, 300, true)], memory), 600, "its parent is not of the tree");
    }
}
