//! Reads process trees from `/proc`.

use std::collections::HashMap;
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

/// Returns the children of this process, which must have only this thread. Cheap if the kernel lists them.
pub(crate) fn own_children() -> Vec<i32> {
    let own = own_pid();
    read_children(Path::new(&format!("/proc/self/task/{own}"))).unwrap_or_else(|_| children_of(own))
}

/// Returns the children of all threads of this process, including adopted orphans. Cheap if the kernel lists them.
/// May miss one while others exit.
pub(crate) fn children_of_all_threads() -> Vec<i32> {
    read_children_of_all_threads().unwrap_or_else(|_| children_of(own_pid()))
}

/// Returns the id of this process.
pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn children_of(pid: i32) -> Vec<i32> {
    Snapshot::take().children(pid).map(|child| child.pid).collect()
}

fn read_children_of_all_threads() -> std::io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task")? {
        let folder = thread?.path();
        match read_children(&folder) {
            Ok(children) => found.extend(children),
            // The thread has exited, and its children have moved to another thread.
            Err(_) if !folder.exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Reads the kernel's list of a thread's children, which some kernels do not provide.
fn read_children(thread: &Path) -> std::io::Result<Vec<i32>> {
    let text = std::fs::read_to_string(thread.join("children"))?;
    Ok(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
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
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |it| it.flatten().count());
    matches!(state, 'X') || (state == 'Z' && threads() <= 1)
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
fn after_name(stat: &str) -> Option<SplitAsciiWhitespace<'_>> {
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
        assert!(children_of_all_threads().contains(&(child.id() as i32)));
        match read_children_of_all_threads() {
            Ok(listed) => assert!(listed.contains(&(child.id() as i32)), "whichever thread started it"),
            Err(error) => skip(Need::Kernel, &format!("this kernel does not list children: {error}")),
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
