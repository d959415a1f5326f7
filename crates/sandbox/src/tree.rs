//! Reads process trees from `/proc`.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::str::SplitAsciiWhitespace;

use rustix::process::{Pid, Signal, kill_process};

/// A process in a snapshot. `zombie`: it has exited with all its threads but was not reaped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ProcessEntry {
    pub(crate) pid: i32,
    pub(crate) zombie: bool,
}

/// All processes at one moment, by parent. May miss processes that start while it is taken. Take another snapshot
/// for those.
#[derive(Debug)]
pub(crate) struct Snapshot {
    children: HashMap<i32, Vec<ProcessEntry>>,
}

impl Snapshot {
    pub(crate) fn take() -> Self {
        let mut children: HashMap<i32, Vec<ProcessEntry>> = HashMap::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = pid
                && let Some((state, parent)) = stat(pid)
            {
                children.entry(parent).or_default().push(ProcessEntry { pid, zombie: is_dead_in(pid, state) });
            }
        }
        Self { children }
    }

    pub(crate) fn children(&self, parent: i32) -> impl Iterator<Item = ProcessEntry> {
        self.children.get(&parent).into_iter().flatten().copied()
    }

    /// Returns all descendants of `root`, parents before children.
    pub(crate) fn descendants(&self, root: i32) -> Vec<ProcessEntry> {
        let mut found: Vec<ProcessEntry> = self.children(root).collect();
        let mut next = 0;
        while let Some(process) = found.get(next).copied() {
            found.extend(self.children(process.pid));
            next += 1;
        }
        found
    }
}

/// Returns a process and its descendants, at most `most`, parents first. May miss one while others exit.
///
/// The kernel lists children only if it was built with `CONFIG_PROC_CHILDREN`. Otherwise this reads all processes.
pub(crate) fn descendants(root: i32, most: usize) -> Vec<i32> {
    let (mut found, mut known) = (vec![root], HashSet::from([root]));
    let mut next = 0;
    while let Some(pid) = found.get(next).copied()
        && found.len() < most
    {
        match read_children(pid, most) {
            // An id may have been reused meanwhile.
            Ok(children) => found.extend(children.into_iter().filter(|it| known.insert(*it))),
            // The process has ended.
            Err(_) if read_stat(pid).is_none() => {}
            Err(_) => {
                let all = Snapshot::take().descendants(root);
                found = std::iter::once(root).chain(all.into_iter().map(|it| it.pid)).collect();
                break;
            }
        }
        next += 1;
    }
    found.truncate(most);
    found
}

/// Returns the children of this process, including adopted orphans. Cheap if the kernel lists them. May miss one while
/// others exit.
pub(crate) fn own_children() -> Vec<i32> {
    let own = own_pid();
    read_children(own, usize::MAX).unwrap_or_else(|_| Snapshot::take().children(own).map(|child| child.pid).collect())
}

/// Returns the id of this process.
pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

/// Reads the kernel's lists of the children of at most `most` threads of a process, and at most `most` children of
/// each. Some kernels do not provide these lists.
fn read_children(pid: i32, most: usize) -> std::io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for thread in threads(pid)?.take(most) {
        // An id and the space behind it take at most eight bytes.
        match read_text(format!("/proc/{pid}/task/{thread}/children"), most.saturating_mul(8)) {
            Ok(text) => found.extend(text.split_ascii_whitespace().filter_map(|it| it.parse::<i32>().ok()).take(most)),
            Err(error) if thread == pid => return Err(error),
            // The thread has exited, and its children have moved to another thread.
            Err(_) => {}
        }
    }
    Ok(found)
}

/// Returns the threads of a process.
pub(crate) fn threads(pid: i32) -> std::io::Result<impl Iterator<Item = i32>> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()))
}

/// Reads at most `most` bytes of a file.
pub(crate) fn read_text(path: impl AsRef<Path>, most: usize) -> std::io::Result<String> {
    read_opened(File::open(path)?, most)
}

/// Reads at most `most` bytes of an open file.
pub(crate) fn read_opened(file: File, most: usize) -> std::io::Result<String> {
    // The kernel finds its place in a list of children by counting: between small reads, a child that exits would hide
    // another one.
    let mut text = Vec::with_capacity(most.min(4096));
    file.take(most as u64).read_to_end(&mut text)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Returns whether a process runs the same program as this one.
pub(crate) fn runs_own_program(pid: i32) -> bool {
    let program = |process: &str| std::fs::metadata(format!("/proc/{process}/exe")).map(|it| (it.dev(), it.ino())).ok();
    program("self").is_some_and(|own| program(&pid.to_string()) == Some(own))
}

/// Returns the id of a process's parent.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent)| parent)
}

/// Returns a process's session, which is the id of the process that created it.
pub(crate) fn session(pid: i32) -> Option<i32> {
    after_name(&read_stat(pid)?)?.nth(3)?.parse().ok()
}

/// Returns a process's start time, in clock ticks. Returns `None` after it has exited, even if it was not reaped
/// yet.
pub fn start_time(pid: u32) -> Option<u64> {
    let stat = read_stat(pid as i32)?;
    let mut fields = after_name(&stat)?;
    if matches!(fields.next()?, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

/// Sends SIGKILL. Ignores the error if the process has already exited.
pub(crate) fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Returns whether a process has exited or does not exist.
pub(crate) fn is_dead(pid: i32) -> bool {
    stat(pid).is_none_or(|(state, _)| is_dead_in(pid, state))
}

/// Checks the threads too, because a process whose first thread has exited appears as a zombie while other threads
/// run.
fn is_dead_in(pid: i32, state: char) -> bool {
    state == 'X' || (state == 'Z' && threads(pid).map_or(0, Iterator::count) <= 1)
}

/// Returns the state letter of a process.
pub(crate) fn state(pid: i32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

fn stat(pid: i32) -> Option<(char, i32)> {
    parse_stat(&read_stat(pid)?)
}

fn read_stat(pid: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// Returns the fields of `/proc/<pid>/stat` that follow the name. The name is in parentheses and may itself
/// contain parentheses.
pub(crate) fn after_name(stat: &str) -> Option<SplitAsciiWhitespace<'_>> {
    Some(stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace())
}

/// Parses the state and the parent from `/proc/<pid>/stat`.
fn parse_stat(stat: &str) -> Option<(char, i32)> {
    let mut fields = after_name(stat)?;
    let state = fields.next()?.chars().next()?;
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::require::{Need, skip};

    #[test]
    fn a_name_full_of_parentheses_does_not_mislead() {
        assert_eq!(parse_stat("12 (a) R 1 (b)) S 34 12 12 0"), Some(('S', 34)));
        assert_eq!(parse_stat("12 (sh) Z 7 12"), Some(('Z', 7)));
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn a_child_is_found_under_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id() as i32;
        assert!(Snapshot::take().descendants(own).iter().any(|process| process.pid == child.id() as i32));
        assert!(own_children().contains(&(child.id() as i32)));
        let found = descendants(own, 1000);
        assert!(found[0] == own && found.contains(&(child.id() as i32)), "{found:?}");
        assert_eq!(descendants(own, 1), [own]);
        match read_children(own, 1000) {
            Ok(listed) => assert!(listed.contains(&(child.id() as i32)), "whichever thread started it"),
            Err(error) => skip(Need::Kernel, &format!("this kernel does not list children: {error}")),
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
