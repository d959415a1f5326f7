//! What processes use, read from `/proc`: processor time of a process tree, and memory.

use std::collections::HashMap;
use std::time::Duration;

use openskill_tests::processes;

/// `USER_HZ`, which Linux fixes whatever the kernel's own clock is.
const TICKS_PER_SECOND: f64 = 100.0;

/// The process table at one moment: parent and processor ticks of each process.
#[derive(Debug)]
pub(crate) struct Table(HashMap<i32, (i32, u64)>);

impl Table {
    /// Takes some milliseconds, so not on a thread that makes calls.
    pub(crate) fn read() -> Self {
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(pids.filter_map(|pid| Some((pid, process(pid)?))).collect())
    }

    /// These processes and all their descendants.
    pub(crate) fn tree(&self, roots: &[i32]) -> Vec<i32> {
        let mut found: Vec<i32> = roots.iter().copied().filter(|pid| self.0.contains_key(pid)).collect();
        let mut next = 0;
        while let Some(parent) = found.get(next).copied() {
            found.extend(self.0.iter().filter(|(_, (of, _))| *of == parent).map(|(pid, _)| *pid));
            next += 1;
        }
        found
    }

    /// The processor time of a tree. A parent has the time of the children it reaped, so the sum does not shrink.
    pub(crate) fn cpu(&self, roots: &[i32]) -> Duration {
        let ticks: u64 = self.tree(roots).iter().map(|pid| self.0[pid].1).sum();
        Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND)
    }
}

fn process(pid: i32) -> Option<(i32, u64)> {
    let fields = processes::stat(pid)?;
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    Some((number(1)? as i32, number(11)? + number(12)? + number(13)? + number(14)?))
}

/// Resident memory in KiB: PSS divides shared pages among those that share them, RSS counts them in full.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd)]
pub(crate) struct Memory {
    pub(crate) pss: u64,
    pub(crate) rss: u64,
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
        sum.pss += value("Pss:").unwrap_or_default();
        sum.rss += value("Rss:").unwrap_or_default();
    }
    sum
}
