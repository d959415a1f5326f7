//! Measures the usage of a process tree where no control group counts it.
//!
//! It sees the memory that processes have mapped. If the kind is `Measured`, the jail must refuse what it cannot
//! see:
//!
//! - a memfd (memfd_create(2)), a file on tmpfs or a System V segment (shmget(2)) that is not mapped
//! - a shared mapping that no process has touched, or that was unmapped or given back
//! - buffers of pipes and sockets
//!
//! It also misses some CPU time, as [`spent`](super::spent) explains. And it reacts late: between two
//! measurements, a tree can use as much as the machine provides in that time.
//!
//! The work of one measurement is limited, because it skips processes beyond the limit. Only if the sum over all
//! processes exceeds the limit does a closer measurement find out how much of it is shared memory. This takes
//! about a millisecond for a few hundred megabytes. While nothing grows, closer measurements take at most a tenth
//! of the time.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use super::amounts::{TreeBounds, Usage};
use super::proc::{self, ProcessTimes, Status};
use super::spent::Spent;
use crate::tree;

/// How long a new process may share all its memory with its parent. A child of vfork(2) uses its parent's memory
/// until it executes another program. Counting this memory twice would end skills that merely start a program.
const NEWBORN: Duration = Duration::from_millis(100);

/// The pause before the next closer measurement, as a multiple of the last one's duration.
const REST: u32 = 10;

/// Measures one process tree repeatedly.
#[derive(Debug)]
pub(crate) struct Meter {
    bounds: TreeBounds,
    /// A process that counts together with its descendants.
    root: i32,
    /// A process whose descendants count. It does not count itself, because its memory belongs to another tree.
    above: Option<i32>,
    /// The time at which each process was first seen.
    seen: HashMap<i32, Instant>,
    closer: Option<Closer>,
    /// Measures CPU time. `None` if that has no limit.
    spent: Option<Spent>,
}

/// The result of a closer measurement.
#[derive(Debug, Clone, Copy)]
struct Closer {
    /// The sum over all processes. It exceeds the real usage, because shared memory counts several times.
    most: u64,
    exact: u64,
    /// The earliest time of the next closer measurement.
    again: Instant,
}

/// One process in a measurement.
#[derive(Debug, Clone, Copy)]
struct Look {
    pid: i32,
    status: Status,
    /// Whether it counts only the memory that it has in addition to its parent's.
    newborn: bool,
}

impl Meter {
    /// Creates a meter of a process with all its descendants, and of `above`'s descendants. `above` does not count
    /// itself.
    pub(crate) fn for_tree(bounds: TreeBounds, root: i32, above: Option<i32>) -> Self {
        let spent = bounds.cpu().map(|_| Spent::default());
        Self { bounds, root, above, seen: HashMap::new(), closer: None, spent }
    }

    /// Measures once. If there are too many processes, measures nothing else and returns zeros for the rest.
    pub(crate) fn measure(&mut self) -> Usage {
        let most = usize::try_from(self.bounds.processes).unwrap_or(usize::MAX).saturating_add(1);
        let mut processes = tree::descendants(self.root, most);
        if let Some(above) = self.above {
            // This list is long only if the tree exceeds its limit.
            processes.extend(tree::descendants(above, most.saturating_add(1)).into_iter().skip(1));
        }
        let cpu = self.cpu(&processes);
        Usage { cpu, ..self.measure_listed(&processes, Instant::now()) }
    }

    /// Returns the CPU time used. `processes`: the measured processes, parents before their children.
    fn cpu(&mut self, processes: &[i32]) -> Duration {
        let Some(spent) = &mut self.spent else { return Duration::ZERO };
        let above = self.above;
        // This process and `above` only wait for processes in the tree.
        let is_host = |pid| Some(pid) == above || pid == tree::own_pid();
        let read = |pid: i32| {
            let times = proc::times(pid)?;
            Some((pid, if is_host(pid) { ProcessTimes { own: Duration::ZERO, ..times } } else { times }))
        };
        let mut look: Vec<_> = above.into_iter().chain(processes.iter().copied()).filter_map(read).collect();
        // An existing process may be missing from the list because its parent changed.
        let listed: HashSet<i32> = look.iter().map(|(pid, _)| *pid).collect();
        let missed = spent.known().filter(|(pid, _)| !listed.contains(pid));
        look.extend(missed.filter_map(|(pid, before)| read(pid).filter(|(_, now)| now.started == before.started)));
        spent.add(look)
    }

    /// Measures everything except the CPU time of these processes, given by their ids.
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
                Some(Look { pid: *pid, status: proc::status(*pid)?, newborn })
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
        let exact = sum(looks, |look| match (look.status.memory, proc::share(look.pid)) {
            (None, _) => 0,
            (_, Some(share)) => share.saturating_add(look.status.tables),
            (Some(memory), None) => memory,
        });
        self.closer = Some(Closer { most, exact, again: now + begun.elapsed() * REST });
        exact
    }
}

/// Returns the total memory. A newborn process counts only what it has in addition to its parent's memory.
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
