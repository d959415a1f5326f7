//! Reads which of its limits a group has hit.
//!
//! v2: cgroup-v2.rst, `memory.events` and `pids.events`. v1: memory.rst, sections 10 (`memory.oom_control`) and 3
//! (`memory.failcnt`, `memory.memsw.failcnt`); pids.rst.

use super::amounts::{ExceededLimit, TreeBounds};
use super::folder::CgroupFolder;

/// Returns the most likely reason why a run failed, from the events in its v2 group. Meaningless for a run that
/// succeeded.
pub(super) fn likely_cause_v2(folder: &CgroupFolder, bounds: &TreeBounds) -> Option<ExceededLimit> {
    let events = folder.read("memory.events").unwrap_or_default();
    let count = |name| number(&events, name).unwrap_or(0);
    // `oom_kill` counts all kills, and `oom` how often this group hit its own limit.
    likely_cause(count("oom_kill"), count("oom"), hit_process_bound(folder, bounds))
}

/// Returns the same as [`likely_cause_v2`], from the events in its v1 groups.
pub(super) fn likely_cause_v1(
    memory: &CgroupFolder,
    pids: &CgroupFolder,
    bounds: &TreeBounds,
) -> Option<ExceededLimit> {
    let count = |file| memory.read(file).ok().and_then(|it| it.trim().parse::<u64>().ok()).unwrap_or(0);
    // With swap, the limit that includes swap may be hit first.
    let hits = count("memory.failcnt").saturating_add(count("memory.memsw.failcnt"));
    // Linux before 4.13 does not count kills.
    let kills = memory.read("memory.oom_control").ok().and_then(|it| number(&it, "oom_kill"));
    likely_cause(kills.unwrap_or(hits), hits, hit_process_bound(pids, bounds))
}

/// `kills`: how many processes the kernel killed because memory ran out. `hits`: how often the group was at its own
/// limit. Without a hit, the container or the machine was out of memory. `refused`: whether the kernel refused a
/// process or thread because the group was at its own limit, which the program may have handled.
fn likely_cause(kills: u64, hits: u64, refused: bool) -> Option<ExceededLimit> {
    match (kills, hits) {
        (0, _) => refused.then_some(ExceededLimit::Processes),
        (_, 0) => Some(ExceededLimit::SharedMemory),
        _ => Some(ExceededLimit::Memory),
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
        assert_eq!(likely_cause(1, 1, true), Some(ExceededLimit::Memory));
        assert_eq!(likely_cause(1, 0, true), Some(ExceededLimit::SharedMemory));
        assert_eq!(likely_cause(0, 7, true), Some(ExceededLimit::Processes));
        assert_eq!(likely_cause(0, 7, false), None, "it was reclaimed");
    }
}
