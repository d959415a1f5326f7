//! What may be left of a call: processes and threads, found by the name they gave themselves.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use openskill_tests::processes;
use rustix::process::{Pid, Signal, kill_process};

/// How long anything of a call may take to be gone.
pub(super) const GONE: Duration = Duration::from_secs(2);

/// A name that all processes and threads of a call have. Kills what still has it when it is dropped.
#[derive(Debug, Clone)]
pub(super) struct Mark(String);

/// A thread: its process, itself, its state.
type Thread = (i32, i32, String);

impl Mark {
    /// At most 15 bytes, as the kernel keeps them.
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        Self(format!("w{:06x}-{}", std::process::id() & 0xff_ffff, NUMBER.fetch_add(1, Ordering::Relaxed)))
    }

    pub(super) fn name(&self) -> &str {
        &self.0
    }

    /// The threads that run, wherever they are. A process whose main thread ended may have others.
    pub(super) fn threads(&self) -> Vec<Thread> {
        numbers(Path::new("/proc")).flat_map(|pid| self.threads_of(pid)).collect()
    }

    fn threads_of(&self, pid: i32) -> Vec<Thread> {
        let tasks = PathBuf::from(format!("/proc/{pid}/task"));
        let thread = |thread: i32| {
            let folder = tasks.join(thread.to_string());
            let name = std::fs::read_to_string(folder.join("comm")).ok()?;
            let stat = std::fs::read_to_string(folder.join("stat")).ok()?;
            let state = stat[stat.rfind(')')? + 1..].split_whitespace().next()?.to_owned();
            (name.trim_end() == self.0 && state != "Z" && state != "X").then_some((pid, thread, state))
        };
        numbers(&tasks).filter_map(thread).collect()
    }

    /// The processes, each once.
    pub(super) fn processes(&self) -> BTreeSet<i32> {
        self.threads().into_iter().map(|(pid, ..)| pid).collect()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        for pid in self.processes().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

fn numbers(folder: &Path) -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The files and folders that calls left in a folder for temporary ones: everything but the worker's socket, the folders of
/// supervisors that run, and in them the empty ones that wait for the next call of a fork server.
pub(super) fn temporary_files(folder: &Path) -> Vec<PathBuf> {
    let list = |folder: &Path| -> Vec<PathBuf> {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|it| it.path()).collect()
    };
    let is_empty_folder = |path: &PathBuf| path.is_dir() && !path.is_symlink() && list(path).is_empty();
    let mut left = Vec::new();
    for run in list(folder) {
        let name = run.file_name().unwrap().to_string_lossy().into_owned();
        if name.starts_with("openskill-run-") && !run.is_symlink() {
            left.extend(list(&run).into_iter().filter(|it| !is_empty_folder(it)));
        } else if !name.starts_with("openskill-") {
            left.push(run);
        }
    }
    left
}

/// What this binary runs on the machine, besides what was there before.
pub(super) fn own_processes(uid: u32, before: &BTreeSet<i32>) -> Vec<(i32, String)> {
    let binary = openskill_tests::binary().canonicalize().unwrap();
    let is_ours = |pid: &i32| {
        let runs_binary = std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|it| it == binary);
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let user = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next());
        runs_binary || user == Some(&uid.to_string())
    };
    let found = numbers(Path::new("/proc")).filter(|pid| !before.contains(pid) && is_ours(pid));
    found.map(|pid| (pid, processes::command_line(pid))).collect()
}
