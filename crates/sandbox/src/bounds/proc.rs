//! Reads how much a process uses from files in `/proc` (proc.rst, sections 1.1, 3.3 and 3.7).
//!
//! It uses a descriptor, because there may be several: a mounted `/proc` shows one namespace's processes, by their
//! ids in it.

use std::collections::HashSet;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

use super::folder::read_text;

/// The maximum part of a file that is read, in bytes. The first lines of `status` contain the required fields.
const MOST_READ: usize = 16 * 1024;

/// The maximum number of a process's threads that are read.
const MOST_THREADS: usize = 1024;

/// The unit of time in `stat` (proc_pid_stat(5), USER_HZ), which is the same on all supported architectures.
const TICK: Duration = Duration::from_millis(10);

/// A mounted `/proc`, as an open folder.
#[derive(Debug)]
pub(super) struct Proc(OwnedFd);

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

impl Proc {
    /// Opens the `/proc` of this process.
    pub(super) fn own() -> io::Result<Self> {
        Ok(Self(open(CWD, Path::new("/proc"))?))
    }

    /// Wraps an open folder that is a mounted `/proc`.
    #[cfg(test)]
    pub(super) fn new(folder: OwnedFd) -> Self {
        Self(folder)
    }

    /// Returns at most `most` of the visible processes.
    pub(super) fn processes(&self, most: usize) -> io::Result<Vec<i32>> {
        Ok(numbers(Dir::read_from(&self.0)?, most))
    }

    /// Returns a process and its descendants, at most `most`, parents first. May miss one while others exit.
    ///
    /// The kernel lists children only if it was built with `CONFIG_PROC_CHILDREN`. Otherwise this reads all
    /// processes.
    pub(super) fn descendants(&self, root: i32, most: usize) -> io::Result<Vec<i32>> {
        let (mut found, mut known) = (vec![root], HashSet::from([root]));
        let mut next = 0;
        while let Some(pid) = found.get(next).copied() {
            match self.children(pid) {
                // An id may have been reused meanwhile.
                Ok(children) => found.extend(children.into_iter().filter(|it| known.insert(*it))),
                Err(_) if self.text(&format!("{pid}/stat")).is_err() => {}
                Err(_) => return self.descendants_by_parent(root, most),
            }
            next += 1;
            if found.len() >= most {
                break;
            }
        }
        found.truncate(most);
        Ok(found)
    }

    fn descendants_by_parent(&self, root: i32, most: usize) -> io::Result<Vec<i32>> {
        let all = self.processes(usize::MAX)?;
        let parents: Vec<_> = all.iter().filter_map(|pid| Some((*pid, self.status(*pid)?.parent))).collect();
        let mut found = vec![root];
        let mut next = 0;
        while let Some(parent) = found.get(next).copied()
            && found.len() < most
        {
            found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
            next += 1;
        }
        found.truncate(most);
        Ok(found)
    }

    /// Returns the children of all threads of a process, including orphans that it adopted.
    fn children(&self, pid: i32) -> io::Result<Vec<i32>> {
        let mut found = Vec::new();
        for thread in self.threads(pid)? {
            match self.text(&format!("{pid}/task/{thread}/children")) {
                Ok(text) => found.extend(text.split_ascii_whitespace().filter_map(|it| it.parse::<i32>().ok())),
                // The thread has exited, or this kernel does not list children.
                Err(error) if thread == pid => return Err(error),
                Err(_) => {}
            }
        }
        Ok(found)
    }

    fn threads(&self, pid: i32) -> io::Result<Vec<i32>> {
        let tasks = open(&self.0, Path::new(&format!("{pid}/task")))?;
        Ok(numbers(Dir::read_from(&tasks)?, MOST_THREADS))
    }

    /// Reads a process's `status`. Returns `None` if the process has ended.
    pub(super) fn status(&self, pid: i32) -> Option<Status> {
        let status = Status::parse(&self.text(&format!("{pid}/status")).ok()?);
        if status.memory.is_some() || status.threads < 2 {
            return Some(status);
        }
        // The first thread has exited and shows no memory, but the other threads still use the memory.
        let threads = self.threads(pid).unwrap_or_default();
        let mut others = threads.iter().filter(|thread| **thread != pid);
        let other = others.find_map(|thread| {
            let other = Status::parse(&self.text(&format!("{pid}/task/{thread}/status")).ok()?);
            other.memory.is_some().then_some(other)
        });
        Some(other.map_or(status, |other| Status { parent: status.parent, threads: status.threads, ..other }))
    }

    /// Reads a process's CPU time. Returns `None` if the process has ended.
    pub(super) fn times(&self, pid: i32) -> Option<ProcessTimes> {
        ProcessTimes::parse(&self.text(&format!("{pid}/stat")).ok()?)
    }

    /// Returns a process's anonymous and shared memory in RAM and in swap, in bytes. Shared memory is divided
    /// among the processes that share it. Reads all page tables. Returns `None` if the process has ended or this
    /// process has no permission (ptrace(2)).
    pub(super) fn share(&self, pid: i32) -> Option<u64> {
        let share = |file: &str| share(&self.text(file).ok()?);
        share(&format!("{pid}/smaps_rollup")).or_else(|| {
            let mut others = self.threads(pid).ok()?.into_iter().filter(|thread| *thread != pid);
            others.find_map(|thread| share(&format!("{pid}/task/{thread}/smaps_rollup")))
        })
    }

    fn text(&self, file: &str) -> io::Result<String> {
        read_text(openat(&self.0, file, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?, MOST_READ)
    }
}

impl ProcessTimes {
    fn parse(text: &str) -> Option<Self> {
        // The name is in parentheses and may itself contain parentheses. The fields after it begin with the state
        // (field 3).
        let fields: Vec<_> = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
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
fn share(text: &str) -> Option<u64> {
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

/// Returns at most `most` of the entries whose names are numbers.
fn numbers(folder: Dir, most: usize) -> Vec<i32> {
    folder.flatten().filter_map(|it| it.file_name().to_str().ok()?.parse().ok()).take(most).collect()
}

fn open(at: impl std::os::fd::AsFd, path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(at, path, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
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
        assert_eq!(share(new), Some(6 * 1024));
        assert_eq!(share("Rss:  9 kB\nPss:  8 kB\n"), Some(8 * 1024));
        assert_eq!(share(""), None);
    }

    #[test]
    fn this_process_and_its_children_are_seen() {
        let proc = Proc::own().unwrap();
        let own = std::process::id() as i32;
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        for found in [proc.descendants(own, 1000).unwrap(), proc.descendants_by_parent(own, 1000).unwrap()] {
            assert!(found[0] == own && found.contains(&(child.id() as i32)), "{found:?}");
        }
        assert_eq!(proc.descendants(own, 1).unwrap(), [own]);
        assert_eq!(proc.status(child.id() as i32).unwrap().parent, own);
        let (status, share) = (proc.status(own).unwrap(), proc.share(own).unwrap());
        assert!(share > 0 && status.memory.unwrap() > 0 && status.threads > 0, "{status:?} {share}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(proc.status(child.id() as i32), None);
    }
}
