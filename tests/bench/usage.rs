//! What processes use, read from `/proc`: processor time of a tree, and memory.

use std::collections::HashMap;
use std::time::Duration;

use openskill_tests::processes;

/// What Linux tells programs, whatever the kernel's own clock.
const TICKS_PER_SECOND: f64 = 100.0;

/// One line of the process table.
#[derive(Debug, Clone, Copy)]
struct Process {
    parent: i32,
    /// Its own and that of children it has asked about, in ticks.
    ticks: u64,
}

/// The processes of a moment.
#[derive(Debug)]
pub(crate) struct Table(HashMap<i32, Process>);

impl Table {
    /// Reads it: some milliseconds, so not on a thread that makes calls.
    pub(crate) fn read() -> Self {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid| Some((pid, process(pid)?))).collect())
    }

    /// These processes and all that descend from them.
    pub(crate) fn tree(&self, roots: &[i32]) -> Vec<i32> {
        let mut found: Vec<i32> = roots.iter().copied().filter(|pid| self.0.contains_key(pid)).collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(self.0.iter().filter(|(_, process)| process.parent == parent).map(|(pid, _)| *pid));
            next += 1;
        }
        found
    }

    /// The processor time of a tree. What ended is in its parent's: the sum never shrinks.
    pub(crate) fn cpu(&self, roots: &[i32]) -> Duration {
        let ticks: u64 = self.tree(roots).iter().map(|pid| self.0[pid].ticks).sum();
        Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND)
    }
}

fn process(pid: i32) -> Option<Process> {
    let fields = processes::stat(pid)?;
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some(Process { parent: number(1)? as i32, ticks: number(11)? + number(12)? + number(13)? + number(14)? })
}

/// Memory of some processes.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Memory {
    /// Pages that several processes have count for each by its share.
    pub(crate) pss_kib: u64,
    /// Pages that several processes have count for each in full.
    pub(crate) rss_kib: u64,
}

/// The memory of these processes together.
pub(crate) fn memory(pids: &[i32]) -> Memory {
    let mut sum = Memory::default();
    for pid in pids {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()
        };
        sum.pss_kib += value("Pss:").unwrap_or_default();
        sum.rss_kib += value("Rss:").unwrap_or_default();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_in_its_own_tree_and_has_memory() {
        let own = std::process::id() as i32;
        assert!(Table::read().tree(&[own]).contains(&own));
        assert!(memory(&[own]).rss_kib >= memory(&[own]).pss_kib && memory(&[own]).rss_kib > 100);
    }
}
