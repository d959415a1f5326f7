//! Reads how much a process uses from files in `/proc` (proc.rst, sections 1.1, 3.3 and 3.7).

use std::time::Duration;

use crate::tree;

/// The maximum part of a file that is read, in bytes. The first lines of `status` contain the required fields.
const MOST_READ: usize = 16 * 1024;

/// The maximum number of a process's threads that are read.
const MOST_THREADS: usize = 1024;

/// The unit of time in `stat` (proc_pid_stat(5), USER_HZ), which is the same on all supported architectures.
const TICK: Duration = Duration::from_millis(10);

/// The fields of a process's `status`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) parent: i32,
    /// Zero if the process has exited.
    pub(super) threads: u64,
    /// Anonymous and shared memory in RAM and in swap, and page tables, in bytes. Memory that several processes
    /// share counts for each of them. `None` if the kernel shows no memory because the first thread has exited.
    pub(super) memory: Option<u64>,
    /// The part of the memory that is page tables, in bytes.
    pub(super) tables: u64,
}

/// A process's CPU time from `stat`. The kernel also shows it for a process that has exited but was not reaped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProcessTimes {
    /// The start time, in ticks since boot. Distinguishes the process from an earlier one with the same id.
    pub(super) started: u64,
    /// The time of all its threads, including ended ones.
    pub(super) own: Duration,
    /// The time of the children for which it has waited, and of those for which they have waited.
    pub(super) reaped: Duration,
}

/// Reads a process's `status`. Returns `None` if the process has ended.
pub(super) fn status(pid: i32) -> Option<Status> {
    let status = Status::parse(&text(&format!("{pid}/status"))?);
    if status.memory.is_some() || status.threads < 2 {
        return Some(status);
    }
    // The first thread has exited and shows no memory, but the other threads still use the memory.
    let other = other_threads(pid).find_map(|thread| {
        let other = Status::parse(&text(&format!("{pid}/task/{thread}/status"))?);
        other.memory.is_some().then_some(other)
    });
    Some(other.map_or(status, |other| Status { parent: status.parent, threads: status.threads, ..other }))
}

/// Reads a process's CPU time. Returns `None` if the process has ended.
pub(super) fn times(pid: i32) -> Option<ProcessTimes> {
    ProcessTimes::parse(&text(&format!("{pid}/stat"))?)
}

/// Returns a process's anonymous and shared memory in RAM and in swap, in bytes. Shared memory is divided among the
/// processes that share it. Reads all page tables. Returns `None` if the process has ended or this process has no
/// permission (ptrace(2)).
pub(super) fn share(pid: i32) -> Option<u64> {
    let share = |file: &str| parse_share(&text(file)?);
    share(&format!("{pid}/smaps_rollup"))
        .or_else(|| other_threads(pid).find_map(|thread| share(&format!("{pid}/task/{thread}/smaps_rollup"))))
}

/// Returns a limited number of a process's threads without the first one.
fn other_threads(pid: i32) -> impl Iterator<Item = i32> {
    tree::threads(pid).into_iter().flatten().take(MOST_THREADS).filter(move |thread| *thread != pid)
}

fn text(file: &str) -> Option<String> {
    tree::read_text(format!("/proc/{file}"), MOST_READ).ok()
}

impl ProcessTimes {
    fn parse(text: &str) -> Option<Self> {
        // The fields after the name begin with the state (field 3).
        let fields: Vec<_> = tree::after_name(text)?.collect();
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let ticks = |number| Some(TICK.saturating_mul(u32::try_from(field(number)?).unwrap_or(u32::MAX)));
        Some(Self { started: field(22)?, own: ticks(14)? + ticks(15)?, reaped: ticks(16)? + ticks(17)? })
    }
}

impl Status {
    fn parse(text: &str) -> Self {
        let mut status = Self::default();
        let (mut resident, mut swap) = (None, 0);
        // Available since Linux 4.5. Without them, mapped files also count.
        let (mut anonymous, mut shared) = (None, None);
        for (name, value) in text.lines().filter_map(|line| line.split_once(':')) {
            match name {
                "PPid" => status.parent = value.trim().parse().unwrap_or(0),
                "VmRSS" => resident = bytes(value),
                "RssAnon" => anonymous = bytes(value),
                "RssShmem" => shared = bytes(value),
                "VmPTE" => status.tables = bytes(value).unwrap_or(0),
                "VmSwap" => swap = bytes(value).unwrap_or(0),
                "Threads" => {
                    status.threads = value.trim().parse().unwrap_or(0);
                    break;
                }
                _ => {}
            }
        }
        let counted = anonymous.zip(shared).map(|(anonymous, shared)| anonymous + shared).or(resident);
        status.memory = counted.map(|counted| counted.saturating_add(swap).saturating_add(status.tables));
        status
    }
}

/// Sums the fields of `smaps_rollup`. Before Linux 5.3, the kernel does not list files separately.
fn parse_share(text: &str) -> Option<u64> {
    let number = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(bytes)
    };
    let parts = number("Pss_Anon").zip(number("Pss_Shmem")).map(|(anonymous, shared)| anonymous + shared);
    Some(parts.or_else(|| number("Pss"))?.saturating_add(number("SwapPss").unwrap_or(0)))
}

/// Converts `     116 kB` to bytes.
fn bytes(value: &str) -> Option<u64> {
    value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_by_its_names() {
        let text = "Name:\ta:b\nState:\tS (sleeping)\nPPid:\t7\nVmRSS:\t    1744 kB\nRssAnon:\t     116 kB\n\
                    RssFile:\t    1628 kB\nRssShmem:\t       8 kB\nVmPTE:\t      44 kB\nVmSwap:\t       2 kB\nThreads:\t3\n";
        let status = Status::parse(text);
        let expected = Status { parent: 7, threads: 3, memory: Some(170 * 1024), tables: 44 * 1024 };
        assert_eq!(status, expected);
        let old = Status::parse("PPid:\t7\nVmRSS:\t    1744 kB\nThreads:\t1\n");
        assert_eq!(old.memory, Some(1744 * 1024));
        assert_eq!(Status::parse("State:\tZ (zombie)\nPPid:\t7\nThreads:\t1\n").memory, None);
    }

    #[test]
    fn times_are_read_behind_any_name() {
        let text = "12 (a) R 1 (b)) S 34 12 12 0 -1 4194304 1 2 3 4 110 20 3 4 20 0 1 0 98765 0 0 0\n";
        let (own, reaped) = (Duration::from_millis(1300), Duration::from_millis(70));
        assert_eq!(ProcessTimes::parse(text), Some(ProcessTimes { started: 98765, own, reaped }));
        assert_eq!(ProcessTimes::parse("12 (sh) Z 7 12"), None);
    }

    #[test]
    fn a_share_leaves_files_out() {
        let new = "Rss:  9 kB\nPss:  8 kB\nPss_Anon:  3 kB\nPss_File:  4 kB\nPss_Shmem:  1 kB\nSwapPss:  2 kB\n";
        assert_eq!(parse_share(new), Some(6 * 1024));
        assert_eq!(parse_share("Rss:  9 kB\nPss:  8 kB\n"), Some(8 * 1024));
        assert_eq!(parse_share(""), None);
    }

    #[test]
    fn this_process_and_its_children_are_seen() {
        let own = std::process::id() as i32;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert_eq!(status(child.id() as i32).unwrap().parent, own);
        let (found, shared) = (status(own).unwrap(), share(own).unwrap());
        assert!(shared > 0 && found.memory.unwrap() > 0 && found.threads > 0, "{found:?} {shared}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(status(child.id() as i32), None);
    }
}
