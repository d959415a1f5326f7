//! Who descends from whom, read from `/proc`.

use std::collections::HashMap;

use rustix::process::{Pid, Signal, kill_process};

/// A process that runs, or has ended and was not waited for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Process {
    pub(crate) pid: i32,
    pub(crate) zombie: bool,
}

/// Every descendant of `root`, parents before children. What starts during the reading may be missed: ask again.
pub(crate) fn descendants(root: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for (pid, parent, zombie) in processes() {
        children.entry(parent).or_default().push(Process { pid, zombie });
    }
    let mut found: Vec<Process> = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(process) = found.get(next).copied() {
        found.extend(children.remove(&process.pid).unwrap_or_default());
        next += 1;
    }
    found
}

/// The children of `parent` alone.
pub(crate) fn children(parent: i32) -> Vec<Process> {
    let of_parent = processes().filter(|(_, its_parent, _)| *its_parent == parent);
    of_parent.map(|(pid, _, zombie)| Process { pid, zombie }).collect()
}

/// Sends SIGKILL. A process that is gone already is what was wanted.
pub(crate) fn kill(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

fn processes() -> impl Iterator<Item = (i32, i32, bool)> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read_to_string(entry.path().join("stat")).ok()?;
        let (parent, zombie) = parse_stat(&stat)?;
        Some((pid, parent, zombie))
    })
}

/// Parent and state out of `/proc/<pid>/stat`. The name stands in parentheses and may hold anything, also those.
fn parse_stat(stat: &str) -> Option<(i32, bool)> {
    let mut after_name = stat.get(stat.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = after_name.next()?;
    Some((after_name.next()?.parse().ok()?, matches!(state, "Z" | "X")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_full_of_parentheses_does_not_mislead() {
        assert_eq!(parse_stat("12 (a) R 1 (b)) S 34 12 12 0"), Some((34, false)));
        assert_eq!(parse_stat("12 (sh) Z 7 12"), Some((7, true)));
        assert_eq!(parse_stat("nonsense"), None);
    }

    #[test]
    fn a_child_is_found_under_its_parent() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let own = std::process::id() as i32;
        assert!(descendants(own).iter().any(|process| process.pid == child.id() as i32));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
