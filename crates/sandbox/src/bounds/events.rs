//! Reads which of its limits a group has hit.
//!
//! v2: cgroup-v2.rst, `memory.events` and `pids.events`. v1: memory.rst, sections 10 (`memory.oom_control`) and 3
//! (`memory.failcnt`, `memory.memsw.failcnt`); pids.rst.

use super::amounts::{Exceeded, TreeBounds};
use super::folder::CgroupFolder;

/// The events in a group since it was created.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Events {
    /// Whether the kernel killed one of its processes because the group was at its own limit.
    pub(crate) out_of_memory: bool,
    /// Whether the kernel killed one of its processes because the container or the machine was out of memory.
    pub(crate) killed_for_others: bool,
    /// Whether the kernel refused a process or thread because the group was at its own limit. The program may have
    /// handled this.
    pub(crate) out_of_processes: bool,
}

impl Events {
    /// Returns the most likely reason why a run failed. Meaningless for a run that succeeded.
    pub(crate) fn likely_cause(self) -> Option<Exceeded> {
        if self.out_of_memory {
            return Some(Exceeded::Memory);
        }
        if self.killed_for_others {
            return Some(Exceeded::SharedMemory);
        }
        self.out_of_processes.then_some(Exceeded::Processes)
    }

    pub(super) fn read_v2(folder: &CgroupFolder, bounds: &TreeBounds) -> Self {
        let events = folder.read("memory.events").unwrap_or_default();
        let count = |name| number(&events, name).unwrap_or(0);
        // `oom_kill` counts all kills, and `oom` how often this group hit its own limit.
        Self::new(count("oom_kill"), count("oom"), hit_process_bound(folder, bounds))
    }

    pub(super) fn read_v1(memory: &CgroupFolder, pids: &CgroupFolder, bounds: &TreeBounds) -> Self {
        let count = |file| memory.read(file).ok().and_then(|it| it.trim().parse::<u64>().ok()).unwrap_or(0);
        // With swap, the limit that includes swap may be hit first.
        let hits = count("memory.failcnt").saturating_add(count("memory.memsw.failcnt"));
        // Linux before 4.13 does not count kills.
        let kills = memory.read("memory.oom_control").ok().and_then(|it| number(&it, "oom_kill"));
        Self::new(kills.unwrap_or(hits), hits, hit_process_bound(pids, bounds))
    }

    fn new(kills: u64, hits: u64, refused: bool) -> Self {
        let killed = kills > 0;
        Self { out_of_memory: killed && hits > 0, killed_for_others: killed && hits == 0, out_of_processes: refused }
    }
}

/// Returns whether the group was at its own limit when a process was refused.
fn hit_process_bound(folder: &CgroupFolder, bounds: &TreeBounds) -> bool {
    let refused = folder.read("pids.events").ok().and_then(|it| number(&it, "max")).unwrap_or(0);
    // v1, and v2 before Linux 6.11, also count an ancestor group's refusals here. The peak, available since Linux
    // 6.1, distinguishes them.
    let peak: Option<u64> = folder.read("pids.peak").ok().and_then(|it| it.trim().parse().ok());
    refused > 0 && peak.is_none_or(|peak| peak >= bounds.processes)
}

/// Finds the number after `name` in a file whose lines each contain a name and a number.
pub(super) fn number(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.split_once(' '));
    lines.find(|(key, _)| *key == name).and_then(|(_, value)| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_by_its_whole_name() {
        let events = "low 0\nhigh 0\nmax 31\noom 2\noom_kill 1\noom_group_kill 1\n";
        assert_eq!(number(events, "oom"), Some(2));
        assert_eq!(number(events, "oom_kill"), Some(1));
        assert_eq!(number(events, "oo"), None);
    }

    #[test]
    fn a_kill_without_a_hit_of_the_own_bound_is_for_others() {
        assert_eq!(Events::new(1, 1, true).likely_cause(), Some(Exceeded::Memory));
        assert_eq!(Events::new(1, 0, true).likely_cause(), Some(Exceeded::SharedMemory));
        assert_eq!(Events::new(0, 7, true).likely_cause(), Some(Exceeded::Processes));
        assert_eq!(Events::new(0, 7, false).likely_cause(), None, "it was reclaimed");
    }
}
