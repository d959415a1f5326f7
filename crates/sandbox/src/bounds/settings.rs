//! Sets a group's limits by writing to its files.
//!
//! v2: cgroup-v2.rst, "Memory Interface Files" and "PID Interface Files". v1: memory.rst, sections 2.4 (swap), 3 and 10
//! (out of memory); pids.rst.

use std::io;

use rustix::io::Errno;

use super::amounts::TreeBounds;
use super::folder::CgroupFolder;

/// The kernel's `PIDS_MAX`. The kernel rejects this number and higher ones.
const MOST_PROCESSES: u64 = 4 * 1024 * 1024;

/// How much a v1 group may swap out, in bytes: one page of the largest size. With zero, the group would first
/// reach the limit that includes swap, and some kernels do not count those hits.
const SWAP: u64 = 64 * 1024;

/// Sets a v2 group's limits.
///
/// # Errors
/// Fails if the group does not have such controllers or its files are not writable.
pub(super) fn bound_v2(folder: &CgroupFolder, bounds: &TreeBounds) -> io::Result<()> {
    folder.write("memory.max", &bounds.memory_bytes.to_string())?;
    // Swapped memory would not count. If the file is missing, there is no swap or the kernel does not account for
    // it.
    if_there(folder.write("memory.swap.max", "0"))?;
    // Half a tree is useless, so the kernel must kill all of it. Available since Linux 4.19.
    if_there(folder.write("memory.oom.group", "1"))?;
    bound_processes(folder, bounds)
}

/// Sets a v1 group's memory limit.
///
/// # Errors
/// Fails if the group does not have such a controller or its files are not writable.
pub(super) fn bound_memory_v1(folder: &CgroupFolder, bounds: &TreeBounds) -> io::Result<()> {
    // The order matters: the limit on memory and swap together can never be below the limit on memory.
    folder.write("memory.limit_in_bytes", &bounds.memory_bytes.to_string())?;
    let with_swap = bounds.memory_bytes.saturating_add(SWAP);
    if !if_there(folder.write("memory.memsw.limit_in_bytes", &with_swap.to_string()))? {
        // The kernel does not account for swap, so prevent the group from swapping.
        if_there(folder.write("memory.swappiness", "0"))?;
    }
    // A group inherits this setting, with which its processes would hang instead of being killed.
    let disabled = folder.read("memory.oom_control").is_ok_and(|it| it.contains("oom_kill_disable 1"));
    if disabled { folder.write("memory.oom_control", "0") } else { Ok(()) }
}

/// Sets a group's limit on processes and threads, on v1 or v2.
///
/// # Errors
/// Fails if the group does not have such a controller or its files are not writable.
pub(super) fn bound_processes(folder: &CgroupFolder, bounds: &TreeBounds) -> io::Result<()> {
    match bounds.processes {
        MOST_PROCESSES.. => folder.write("pids.max", "max"),
        most => folder.write("pids.max", &most.to_string()),
    }
}

/// Returns `false` if the file is missing, for example because the kernel was started without this feature.
fn if_there(written: io::Result<()>) -> io::Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::OPNOTSUPP)) => Ok(false),
        Err(error) => Err(error),
    }
}
