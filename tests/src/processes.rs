//! The processes of the machine, read from `/proc`.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::wait::until_true;

/// The processes of a call, without zombies. Its id is in their environment.
pub fn of_call(call_id: &str) -> Vec<i32> {
    with_environment(&format!("OPENSKILL_CALL_ID={call_id}"))
}

/// The processes whose environment has this entry.
pub fn with_environment(entry: &str) -> Vec<i32> {
    all().filter(|pid| environment(*pid).split(|byte| *byte == 0).any(|it| it == entry.as_bytes())).collect()
}

/// The processes of calls whose id starts with `prefix`, each with its call's id.
pub fn of_calls(prefix: &str) -> Vec<(i32, String)> {
    let start = format!("OPENSKILL_CALL_ID={prefix}");
    let call_id = |pid: i32| {
        let environment = environment(pid);
        let entry = environment.split(|byte| *byte == 0).find(|it| it.starts_with(start.as_bytes()))?;
        let id = String::from_utf8_lossy(&entry["OPENSKILL_CALL_ID=".len()..]).into_owned();
        Some((pid, id))
    };
    all().filter_map(call_id).collect()
}

/// The children of a process that ended and were not reaped.
pub fn zombies(parent: i32) -> Vec<i32> {
    pids().filter(|pid| parent_of(*pid) == Some(parent) && state(*pid).as_deref() == Some("Z")).collect()
}

/// The resident memory of a process in KiB. None once it is gone.
pub fn resident_kib(pid: i32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse().ok())
}

/// The children of a process whose command line holds `text`.
pub fn children(parent: i32, text: &str) -> Vec<i32> {
    all().filter(|pid| parent_of(*pid) == Some(parent) && command_line(*pid).contains(text)).collect()
}

/// All descendants of a process.
pub fn descendants(root: i32) -> Vec<i32> {
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(all().filter(|pid| parent_of(*pid) == Some(parent)));
        next += 1;
    }
    found.remove(0);
    found
}

/// Waits until no process of a call is left.
pub async fn gone(call_id: &str, within: Duration) {
    until_true(&format!("the processes of {call_id} end"), within, || of_call(call_id).is_empty()).await;
}

pub fn send(pid: i32, signal: Signal) {
    assert!(pid > 1, "{pid} is not the id of a single process");
    let _ = kill_process(Pid::from_raw(pid).unwrap(), signal);
}

pub fn is_alive(pid: i32) -> bool {
    matches!(state(pid), Some(state) if state != "Z" && state != "X")
}

/// How many descriptors a process has open.
pub fn descriptors(pid: i32) -> usize {
    let folder = format!("/proc/{pid}/fd");
    match std::fs::read_dir(&folder) {
        Ok(entries) => entries.count(),
        // A worker hides its descriptors from everybody but root.
        Err(error) => panic!("{folder} cannot be counted: {error}; run this test as root"),
    }
}

fn all() -> impl Iterator<Item = i32> {
    pids().filter(|pid| is_alive(*pid))
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn environment(pid: i32) -> Vec<u8> {
    std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default()
}

/// The command line of a process. Empty once it is gone.
pub fn command_line(pid: i32) -> String {
    String::from_utf8_lossy(&std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default()).replace('\0', " ")
}

fn parent_of(pid: i32) -> Option<i32> {
    stat(pid)?.get(1)?.parse().ok()
}

fn state(pid: i32) -> Option<String> {
    stat(pid)?.first().cloned()
}

/// The fields of `/proc/<pid>/stat` after the name. The first is the state.
pub fn stat(pid: i32) -> Option<Vec<String>> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat[stat.rfind(')')? + 1..].split_whitespace().map(str::to_owned).collect())
}
