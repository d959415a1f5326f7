//! Runs a process tree in its own namespaces: users, processes, mounts, IPC, host name, cgroups, and the network
//! unless the manifest grants one (namespaces(7)).
//!
//! One clone(2) creates all of them. The child is process 1 of its process namespace. When it ends, the kernel
//! kills everything in the namespace, in whatever state. The parent stays outside, writes the child's user
//! mapping, and waits.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, getegid, geteuid, set_parent_process_death_signal, waitpid};

use crate::tree;

/// The process in which [`split`] returns.
pub(crate) enum Side {
    /// Process 1 of the new namespaces, which has all capabilities in them.
    Inside,
    /// The caller, with the id of the process inside.
    Outside(Pid),
}

/// Forks a child into new namespaces. The calling process must have one thread. `before` receives the child's
/// process id before the child continues.
///
/// # Errors
/// Fails if the kernel, its settings or a container's filter forbids it. In the child, fails if the parent is
/// gone.
pub(crate) fn split(own_network: bool, before: impl FnOnce(i32) -> io::Result<()>) -> io::Result<Side> {
    let (gate, open) = pipe_with(PipeFlags::CLOEXEC)?;
    let network = if own_network { libc::CLONE_NEWNET } else { 0 };
    let flags = libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWCGROUP
        | network;
    match fork_into(flags)? {
        None => {
            drop(open);
            enter(gate)?;
            Ok(Side::Inside)
        }
        Some(child) => {
            drop(gate);
            if let Err(error) = map_users(child)
                .and_then(|()| before(child.as_raw_nonzero().get()))
                .and_then(|()| Ok(rustix::io::write(&open, &[1])?))
            {
                tree::kill(child.as_raw_nonzero().get());
                let _ = waitpid(Some(child), WaitOptions::empty());
                return Err(error);
            }
            Ok(Side::Outside(child))
        }
    }
}

/// Enables the loopback address in the network namespace that was created together with the calling process.
///
/// # Errors
/// Fails if the kernel does not allow it.
pub(crate) fn raise_loopback() -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: all zeros is a valid value of a struct that contains numbers and a union of numbers and a pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: this ioctl reads the request (netdevice(7)), which lives until it returns.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Limits for all users of a namespace together, on file watches that the kernel also charges to the user who
/// created the namespace (the worker's). No user in the namespace can raise them.
const COUNTED: [(&str, u32); 2] =
    [("/proc/sys/user/max_inotify_instances", 4), ("/proc/sys/user/max_inotify_watches", 4096)];

/// Limits how much the calling process's user namespace takes from counters that the machine keeps per user. Has
/// no effect where `/proc/sys` is read-only, as in some containers.
pub(crate) fn bound_counters() {
    for (setting, most) in COUNTED {
        let _ = std::fs::write(setting, most.to_string());
    }
}

/// Waits until the parent has mapped the users.
fn enter(gate: OwnedFd) -> io::Result<()> {
    // The death signal of a parent outside also reaches process 1. If the parent died before the signal was set,
    // its end of the gate is closed.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut byte = [0];
    match rustix::io::retry_on_intr(|| rustix::io::read(&gate, &mut byte))? {
        0 => Err(io::ErrorKind::BrokenPipe.into()),
        _ => Ok(()),
    }
}

/// Ends the calling process immediately, without running the parent's exit handlers.
pub(crate) fn leave(code: i32) -> ! {
    // SAFETY: this only ends the process.
    unsafe { libc::_exit(code) }
}

/// Kills all other processes of the namespace in which the calling process is process 1.
pub(crate) fn kill_all() {
    // SAFETY: this only sends a signal, and only to processes of the namespace.
    let _ = unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// Calls fork(2) with flags. Returns `None` in the child.
fn fork_into(flags: libc::c_int) -> io::Result<Option<Pid>> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: without CLONE_VM and without a stack, this is fork(2), so the child gets a copy of everything. The
    // process has one thread, so no other thread holds a lock. The last argument differs by architecture, and is
    // also null.
    let pid = unsafe { libc::syscall(libc::SYS_clone, i64::from(flags | libc::SIGCHLD), none, none, none, none) };
    match i32::try_from(pid) {
        Ok(0) => Ok(None),
        Ok(pid) if pid > 0 => Ok(Pid::from_raw(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Creates a user namespace that swaps two pairs of ids, for an ID-mapped mount. Files of a pair's first id appear
/// to belong to the second. The calling process must have one thread.
///
/// # Errors
/// Fails if the kernel or a container's filter does not allow it.
pub(super) fn swap_users((user, other): (u32, u32), (group, other_group): (u32, u32)) -> io::Result<OwnedFd> {
    let (gate, open) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(child) = fork_into(libc::CLONE_NEWUSER)? else {
        drop(open);
        // Wait until the parent has opened the namespace or is gone.
        let _ = rustix::io::read(&gate, &mut [0]);
        leave(0)
    };
    let file = |name: &str| format!("/proc/{}/{name}", child.as_raw_nonzero());
    let map = || {
        std::fs::write(file("uid_map"), swap(user, other))?;
        std::fs::write(file("gid_map"), swap(group, other_group))?;
        Ok(std::fs::File::open(file("ns/user"))?.into())
    };
    let namespace = map();
    drop(open);
    let _ = waitpid(Some(child), WaitOptions::empty());
    namespace
}

/// Returns the mapping that swaps two numbers and keeps all others.
fn swap(one: u32, other: u32) -> String {
    let (low, high) = (one.min(other), one.max(other));
    let mut ranges = vec![(0, 0, low), (low, high, 1), (low + 1, low + 1, high - low - u32::from(low != high))];
    if low != high {
        ranges.push((high, low, 1));
    }
    ranges.push((high + 1, high + 1, u32::MAX - high - 1));
    let lines = ranges.into_iter().filter(|(.., count)| *count > 0);
    lines.map(|(inside, outside, count)| format!("{inside} {outside} {count}\n")).collect()
}

/// Maps each user to the same number inside. A worker that is root maps all its users. Any other worker maps only
/// its own.
fn map_users(child: Pid) -> io::Result<()> {
    let file = |name: &str| format!("/proc/{}/{name}", child.as_raw_nonzero());
    if geteuid().is_root() {
        std::fs::write(file("uid_map"), same(&std::fs::read_to_string("/proc/self/uid_map")?)?)?;
        return std::fs::write(file("gid_map"), same(&std::fs::read_to_string("/proc/self/gid_map")?)?);
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // The kernel requires this before it maps a group without a capability (user_namespaces(7)).
    std::fs::write(file("setgroups"), "deny")?;
    std::fs::write(file("uid_map"), format!("{user} {user} 1"))?;
    std::fs::write(file("gid_map"), format!("{group} {group} 1"))
}

/// Returns the identity mapping for a namespace whose parent has this mapping.
fn same(map: &str) -> io::Result<String> {
    let line = |line: &str| {
        let mut fields = line.split_ascii_whitespace();
        let (first, _, count) = (fields.next()?, fields.next()?, fields.next()?);
        Some(format!("{first} {first} {count}\n"))
    };
    map.lines().map(line).collect::<Option<String>>().ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_keep_their_numbers() {
        assert_eq!(same("         0          0 4294967295\n").unwrap(), "0 0 4294967295\n");
        assert_eq!(same("0 100000 65536\n65536 1000 1\n").unwrap(), "0 0 65536\n65536 65536 1\n");
        assert!(same("nonsense\n").is_err());
    }

    #[test]
    fn two_users_change_places() {
        assert_eq!(swap(0, 65534), "0 65534 1\n1 1 65533\n65534 0 1\n65535 65535 4294901760\n");
        assert_eq!(swap(5, 6), swap(6, 5));
        assert_eq!(swap(5, 6), "0 0 5\n5 6 1\n6 5 1\n7 7 4294967288\n");
        assert_eq!(swap(7, 7), "0 0 7\n7 7 1\n8 8 4294967287\n");
    }
}
