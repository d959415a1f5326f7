//! Which files of a group hold its bounds.
//!
//! v2: cgroup-v2.rst, "Memory Interface Files" and "PID Interface Files". v1: memory.rst, sections 2.4 (swap), 3 and 10
//! (out of memory); pids.rst.

use std::io;

use rustix::io::Errno;

use super::amounts::Bounds;
use super::folder::Folder;

/// The kernel's `PIDS_MAX`: a number as large as this is refused.
const MOST_PROCESSES: u64 = 4 * 1024 * 1024;

/// What a group of v1 may swap out, in bytes: a page of the largest size. Were it nothing, the bound with swap would be hit
/// first, and some kernels do not count those hits.
const SWAP: u64 = 64 * 1024;

/// Bounds a group of v2.
///
/// # Errors
/// It has no such controllers, or may not be written.
pub(super) fn bound_v2(folder: &Folder, bounds: &Bounds) -> io::Result<()> {
    folder.write("memory.max", &bounds.memory_bytes.to_string())?;
    // What is swapped out would not count. Without the file there is no swap, or it is not accounted for.
    if_there(folder.write("memory.swap.max", "0"))?;
    // Half a tree is of no use. Since Linux 4.19.
    if_there(folder.write("memory.oom.group", "1"))?;
    bound_processes(folder, bounds)
}

/// Bounds the memory of a group of v1.
///
/// # Errors
/// It has no such controller, or may not be written.
pub(super) fn bound_memory_v1(folder: &Folder, bounds: &Bounds) -> io::Result<()> {
    // In this order: memory and swap together can never be less than memory.
    folder.write("memory.limit_in_bytes", &bounds.memory_bytes.to_string())?;
    let with_swap = bounds.memory_bytes.saturating_add(SWAP);
    if !if_there(folder.write("memory.memsw.limit_in_bytes", &with_swap.to_string()))? {
        // Swap is not accounted for: keep the group out of it.
        if_there(folder.write("memory.swappiness", "0"))?;
    }
    // A group inherits this, and would then stand still rather than be killed.
    let disabled = folder.read("memory.oom_control").is_ok_and(|it| it.contains("oom_kill_disable 1"));
    if disabled { folder.write("memory.oom_control", "0") } else { Ok(()) }
}

/// Bounds the processes and threads of a group of either version.
///
/// # Errors
/// It has no such controller, or may not be written.
pub(super) fn bound_processes(folder: &Folder, bounds: &Bounds) -> io::Result<()> {
    match bounds.processes {
        MOST_PROCESSES.. => folder.write("pids.max", "max"),
        most => folder.write("pids.max", &most.to_string()),
    }
}

/// Whether a file could be written. That it is not there, or that the kernel was started without it, is no error.
fn if_there(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error)
            if [Errno::NOENT, Errno::OPNOTSUPP]
                .map(Errno::raw_os_error)
                .contains(&error.raw_os_error().unwrap_or(0)) =>
        {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}
