//! Removing a group: first whatever runs in it, then its folder. Bounded by a time.
//!
//! v2: cgroup-v2.rst, `cgroup.kill`, and "Organizing Processes and Threads": a group of which only zombies are left can be
//! removed. v1: cgroups.rst, section 2.1, with a kill of each process.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::folder::Folder;
use crate::process::tree;

/// How many processes are waited for at once. Each takes a descriptor meanwhile.
const AT_ONCE: usize = 64;

/// Between two tries, where there is nothing to wait for.
const STEP: Duration = Duration::from_millis(1);

/// Kills every process in a group until none is left or the time has come. Whether none is left.
///
/// This process is spared, should it be in there.
pub(super) fn kill(folder: &Folder, until: Instant) -> bool {
    // Nothing in there starts another process from here on.
    let _ = folder.write("pids.max", "0");
    let is_own = folder.processes().is_ok_and(|it| it.contains(&tree::own_pid()));
    if !is_own {
        // Since Linux 5.14, and on v2 only: all at once.
        let _ = folder.write("cgroup.kill", "1");
    }
    loop {
        match others(folder) {
            Ok(processes) if processes.is_empty() => return true,
            Ok(processes) => kill_listed(folder, &processes, until),
            // Somebody else has removed it.
            Err(error) => return is_gone(&error),
        }
        if Instant::now() >= until {
            return false;
        }
    }
}

/// Removes a folder of `parent`, and kills what is in there before. Whether it is gone.
pub(super) fn remove(parent: &Folder, name: &str, until: Instant) -> bool {
    if parent.remove(name).is_ok() {
        return true;
    }
    let Ok(folder) = parent.sub(name) else { return false };
    loop {
        kill(&folder, until);
        if parent.remove(name).is_ok() {
            return true;
        }
        if Instant::now() >= until {
            return false;
        }
        // The last one is on its way out.
        pause(STEP);
    }
}

/// Kills the processes, and waits for the end of some of them.
fn kill_listed(folder: &Folder, processes: &[i32], until: Instant) {
    for some in processes.chunks(AT_ONCE) {
        let open: Vec<_> = some.iter().filter_map(|pid| Some((*pid, pidfd(*pid)?))).collect();
        // An id may have become another process's before it was opened, and that one is not listed.
        let still = others(folder).unwrap_or_default();
        let ours: Vec<OwnedFd> = open.into_iter().filter(|(pid, _)| still.contains(pid)).map(|(_, it)| it).collect();
        for process in &ours {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        wait(&ours, until);
    }
}

/// Waits until all have exited, with all their threads, or the time has come.
fn wait(processes: &[OwnedFd], until: Instant) {
    for process in processes {
        let left = until.saturating_duration_since(Instant::now());
        let _ = poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&timespec(left)));
    }
}

fn others(folder: &Folder) -> io::Result<Vec<i32>> {
    let mut processes = folder.processes()?;
    // Zero is a process of a namespace that this one does not see.
    processes.retain(|pid| *pid > 0 && *pid != tree::own_pid());
    Ok(processes)
}

fn pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}

/// A group that was removed while it is open answers so.
fn is_gone(error: &io::Error) -> bool {
    let gone = [rustix::io::Errno::NODEV, rustix::io::Errno::NOENT];
    gone.map(rustix::io::Errno::raw_os_error).contains(&error.raw_os_error().unwrap_or(0))
}

fn pause(step: Duration) {
    let _ = poll(&mut [], Some(&timespec(step)));
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: time.subsec_nanos().into() }
}
