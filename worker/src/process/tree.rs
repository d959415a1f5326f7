//! Process trees, read from `/proc`.

use std::collections::HashMap;
use std::path::Path;
use std::str::SplitAsciiWhitespace;

use rustix::process::{Pid, Signal, kill_process};

/// A process that runs, or has exited with all its threads and was not reaped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) zombie: bool,
}

/// All processes at one moment, by parent. What starts during the reading may be missed: take another.
#[derive(Debug)]
pub(crate) struct Snapshot {
    children: HashMap<i32, Vec<Process>>,
}

impl Snapshot {
    pub(crate) fn take() -> Self {
        let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| name.parse().ok());
            if let Some(pid) = pid
                && let Some((state, parent)) = stat(pid)
            {
                children.entry(parent).or_default().push(Process { pid, zombie: is_dead_in(pid, state) });
            }
        }
        Self { children }
    }

    pub(crate) fn children(&self, parent: i32) -> impl Iterator<Item = Process> {
        self.children.get(&parent).into_iter().flatten().copied()
    }

    /// Every descendant of `root`, parents before children.
    pub(crate) fn descendants(&self, root: i32) -> Vec<Process> {
        let mut found: Vec<Process> = self.children(root).collect();
        let mut next = 0;
        while let Some(process) = found.get(next).copied() {
            found.extend(self.children(process.pid));
            next += 1;
        }
        found
    }
}

/// The children of this thread's process, in which this thread is the only one. Cheap where the kernel lists them.
pub(crate) fn own_children() -> Vec<i32> {
    let own = own_pid();
    listed(Path::new(&format!("/proc/self/task/{own}"))).unwrap_or_else(|_| children_of(own))
}

/// The children that any thread of this process started, and its orphans. Cheap where the kernel lists them; one may be
/// missed while others exit.
pub(crate) fn children_of_all_threads() -> Vec<i32> {
    listed_of_all_threads().unwrap_or_else(|_| children_of(own_pid()))
}

/// The number of this process.
pub(crate) fn own_pid() -> i32 {
    rustix::process::getpid().as_raw_nonzero().get()
}

fn children_of(pid: i32) -> Vec<i32> {
    Snapshot::take().children(pid).map(|child| child.pid).collect()
}

fn listed_of_all_threads() -> std::io::Result<Vec<i32>> {
    let mut found = Vec::new();
    for thread in std::fs::read_dir("/proc/self/task")? {
        let folder = thread?.path();
        match listed(&folder) {
            Ok(children) => found.extend(children),
            // The thread went: its children are another's by now.
            Err(_) if !folder.exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// What the kernel lists for a thread. Not every kernel does.
fn listed(thread: &Path) -> std::io::Result<Vec<i32>> {
    let text = std::fs::read_to_string(thread.join("children"))?;
    Ok(text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok()).collect())
}

/// The parent of a process.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    stat(pid).map(|(_, parent)| parent)
}

/// The session a process belongs to: the id of the process that made it.
pub(crate) fn session(pid: i32) -> Option<i32> {
    after_name(&read_stat(pid)?)?.nth(3)?.parse().ok()
}

/// When a process was started, in the system's ticks. None once it has exited, even if it was not reaped yet.
pub(crate) fn started(pid: u32) -> Option<u64> {
    let stat = read_stat(pid as i32)?;
    let mut fields = after_name(&stat)?;
    if matches!(fields.next()?, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}

/// Sends SIGKILL. That the process may have exited already is no error.
pub(crate) fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Whether a process has exited, or is gone.
pub(crate) fn is_dead(pid: i32) -> bool {
    stat(pid).is_none_or(|(state, _)| is_dead_in(pid, state))
}

/// A process whose first thread has exited shows the state of a zombie while its other threads run on.
fn is_dead_in(pid: i32, state: char) -> bool {
    let threads = || std::fs::read_dir(format!("/proc/{pid}/task")).map_or(0, |it| it.flatten().count());
    matches!(state, 'X') || (state == 'Z' && threads() <= 1)
}

/// The state letter of a process.
pub(crate) fn state(pid: i32) -> Option<char> {
    stat(pid).map(|(state, _)| state)
}

fn stat(pid: i32) -> Option<(char, i32)> {
    parse_stat(&read_stat(pid)?)
}

fn read_stat(pid: i32) -> Option<String> {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()
}

/// The fields of `/proc/<pid>/stat` from the state on. The name stands in parentheses and may hold anything, also those.
fn after_name(stat: &str) -> Option<SplitAsciiWhitespace<'_>> {
    Some(stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace())
}

/// State and parent out of `/proc/<pid>/stat`.
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
        match listed_of_all_threads() {
            Ok(listed) => assert!(listed.contains(&(child.id() as i32)), "whichever thread started it"),
            Err(error) => skip(Need::Kernel, &format!("this kernel does not list children: {error}")),
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
