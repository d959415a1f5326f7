//! What the kernel counted in a group: whether a bound was hit.
//!
//! v2: cgroup-v2.rst, `memory.events` and `pids.events`. v1: memory.rst, sections 10 (`memory.oom_control`) and 3
//! (`memory.failcnt`, `memory.memsw.failcnt`); pids.rst.

use super::amounts::{Bounds, Exceeded};
use super::folder::Folder;

/// What happened in a group since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Events {
    /// The kernel killed a process of it because the group was at its own bound.
    pub(crate) out_of_memory: bool,
    /// The kernel killed a process of it for another reason: the container or the machine was out of memory.
    pub(crate) killed_for_others: bool,
    /// A process or thread was not started because the group was at its own bound. That may have done no harm.
    pub(crate) out_of_processes: bool,
}

impl Events {
    /// What explains best that a run failed. Of a run that succeeded it explains nothing.
    pub(crate) fn exceeded(self) -> Option<Exceeded> {
        if self.out_of_memory {
            return Some(Exceeded::Memory);
        }
        if self.killed_for_others {
            return Some(Exceeded::SharedMemory);
        }
        self.out_of_processes.then_some(Exceeded::Processes)
    }

    pub(super) fn of_v2(folder: &Folder, bounds: &Bounds) -> Self {
        let events = folder.read("memory.events").unwrap_or_default();
        let count = |name| number(&events, name).unwrap_or(0);
        // `oom_kill` counts kills of every kind, `oom` those times that this group was at its bound.
        Self::new(count("oom_kill"), count("oom"), refused(folder, bounds))
    }

    pub(super) fn of_v1(memory: &Folder, pids: &Folder, bounds: &Bounds) -> Self {
        let count = |file| memory.read(file).ok().and_then(|it| it.trim().parse::<u64>().ok()).unwrap_or(0);
        // Where there is swap, it may be used up first.
        let hits = count("memory.failcnt").saturating_add(count("memory.memsw.failcnt"));
        // Linux before 4.13 does not count kills.
        let kills = memory.read("memory.oom_control").ok().and_then(|it| number(&it, "oom_kill"));
        Self::new(kills.unwrap_or(hits), hits, refused(pids, bounds))
    }

    fn new(kills: u64, hits: u64, refused: bool) -> Self {
        let killed = kills > 0;
        Self { out_of_memory: killed && hits > 0, killed_for_others: killed && hits == 0, out_of_processes: refused }
    }
}

/// Whether the group was at its own bound on processes when one was refused.
fn refused(folder: &Folder, bounds: &Bounds) -> bool {
    let refused = folder.read("pids.events").ok().and_then(|it| number(&it, "max")).unwrap_or(0);
    // v1, and v2 before Linux 6.11, count here what a group above has refused. The most there was, since 6.1, tells them apart.
    let peak: Option<u64> = folder.read("pids.peak").ok().and_then(|it| it.trim().parse().ok());
    refused > 0 && peak.is_none_or(|peak| peak >= bounds.processes)
}

/// A number in a file of lines with a name and a number.
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
        assert_eq!(Events::new(1, 1, true).exceeded(), Some(Exceeded::Memory));
        assert_eq!(Events::new(1, 0, true).exceeded(), Some(Exceeded::SharedMemory));
        assert_eq!(Events::new(0, 7, true).exceeded(), Some(Exceeded::Processes));
        assert_eq!(Events::new(0, 7, false).exceeded(), None, "it was reclaimed");
    }
}
