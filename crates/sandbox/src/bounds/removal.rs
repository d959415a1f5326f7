//! Removes a group within a time limit: kills its processes, then removes its folder.
//!
//! v2: cgroup-v2.rst, `cgroup.kill`, and "Organizing Processes and Threads": a group that contains only zombies can be
//! removed. v1: cgroups.rst, section 2.1; each process is killed individually.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::folder::CgroupFolder;
use crate::readiness::readable;
use crate::tree;

/// The maximum number of processes to wait for at once. Each takes a descriptor meanwhile.
const AT_ONCE: usize = 64;

/// The pause between two attempts if there is nothing to wait for.
const STEP: Duration = Duration::from_millis(1);

/// Kills all processes in a group until none is left or the time is over. Returns whether none is left.
///
/// Does not kill this process if it is in the group.
pub(super) fn kill(folder: &CgroupFolder, until: Instant) -> bool {
    // From here on, no process in the group can start another.
    let _ = folder.write("pids.max", "0");
    let is_own = folder.processes().is_ok_and(|it| it.contains(&tree::own_pid()));
    if !is_own {
        // Kills all processes at once. Available since Linux 5.14, on v2 only.
        let _ = folder.write("cgroup.kill", "1");
    }
    loop {
        match others(folder) {
            Ok(processes) if processes.is_empty() => return true,
            Ok(processes) => kill_listed(folder, &processes, until),
            // Another process removed the group.
            Err(error) => return matches!(Errno::from_io_error(&error), Some(Errno::NODEV | Errno::NOENT)),
        }
        if Instant::now() >= until {
            return false;
        }
    }
}

/// Kills the processes in a subfolder of `parent` and removes the subfolder. Returns whether it is removed.
pub(super) fn remove(parent: &CgroupFolder, name: &str, until: Instant) -> bool {
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
        // The last process is about to exit.
        let _ = readable([], Some(STEP));
    }
}

/// Kills these processes, and waits for some of them to end.
fn kill_listed(folder: &CgroupFolder, processes: &[i32], until: Instant) {
    for some in processes.chunks(AT_ONCE) {
        let open: Vec<_> = some.iter().filter_map(|pid| Some((*pid, pidfd(*pid)?))).collect();
        // The id may have been reused before it was opened. Then the new process is not in the list.
        let still = others(folder).unwrap_or_default();
        let ours: Vec<OwnedFd> = open.into_iter().filter(|(pid, _)| still.contains(pid)).map(|(_, it)| it).collect();
        for process in &ours {
            let _ = pidfd_send_signal(process, Signal::KILL);
        }
        // A process is readable after it has exited with all its threads.
        for process in &ours {
            let _ = readable([process.as_fd()], Some(until.saturating_duration_since(Instant::now())));
        }
    }
}

fn others(folder: &CgroupFolder) -> io::Result<Vec<i32>> {
    let mut processes = folder.processes()?;
    // Zero represents a process in a namespace that this process does not see.
    processes.retain(|pid| *pid > 0 && *pid != tree::own_pid());
    Ok(processes)
}

fn pidfd(pid: i32) -> Option<OwnedFd> {
    pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()
}
