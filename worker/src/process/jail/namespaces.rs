//! A process tree in namespaces of its own: users, processes, mounts, IPC, host name, cgroups, and the network unless the
//! manifest grants one (namespaces(7)).
//!
//! One clone(2) makes all of them. The child is process 1 of its process namespace: when it ends, the kernel ends all
//! that is in there, whatever state it is in. The parent stays outside, writes the child's user mapping, and waits.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitOptions, getegid, geteuid, set_parent_process_death_signal, waitpid};

use crate::process::tree;

/// Where a caller of [`split`] finds itself.
pub(in crate::process) enum Side {
    /// Process 1 of the new namespaces, with all capabilities in them.
    Inside,
    /// The caller, and the process that is inside.
    Outside(Pid),
}

/// Forks a child into new namespaces, for a process with one thread. `before` is given its process id, before it goes on.
///
/// # Errors
/// The kernel, its settings or a container's filter do not allow it. On the inside: the parent is gone.
pub(in crate::process) fn split(own_network: bool, before: impl FnOnce(i32) -> io::Result<()>) -> io::Result<Side> {
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

/// Gives the network namespace of the calling process, which was made with it, a loopback address.
///
/// # Errors
/// The kernel does not allow it.
pub(in crate::process) fn raise_loopback() -> io::Result<()> {
    let socket = rustix::net::socket_with(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::DGRAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )?;
    // SAFETY: all zeros is a valid value of a struct of numbers and a union of numbers and a pointer.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo\0") {
        *to = *from as libc::c_char;
    }
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: the request is what this ioctl reads (netdevice(7)), and lives until it returns.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// What the users of one namespace may have together of what the kernel also adds to what the user has who made it (the
/// worker's): watches of files. None of its users can raise it.
const COUNTED: [(&str, u32); 2] =
    [("/proc/sys/user/max_inotify_instances", 4), ("/proc/sys/user/max_inotify_watches", 4096)];

/// Bounds what the processes of the calling process's user namespace take of numbers that the machine counts by user.
/// As far as `/proc/sys` can be written: a container may show it read-only.
pub(in crate::process) fn bound_counters() {
    for (setting, most) in COUNTED {
        let _ = std::fs::write(setting, most.to_string());
    }
}

/// Waits until the parent has mapped the users.
fn enter(gate: OwnedFd) -> io::Result<()> {
    // The signal of a parent that is outside reaches process 1 too. One that died before it was asked for closed the gate.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let mut byte = [0];
    match rustix::io::retry_on_intr(|| rustix::io::read(&gate, &mut byte))? {
        0 => Err(io::ErrorKind::BrokenPipe.into()),
        _ => Ok(()),
    }
}

/// Ends the calling process at once, with nothing of its parent's to clean up.
pub(in crate::process) fn leave(code: i32) -> ! {
    // SAFETY: it only ends the process.
    unsafe { libc::_exit(code) }
}

/// Kills every process of the namespace that the calling process is process 1 of, but itself.
pub(in crate::process) fn kill_all() {
    // SAFETY: it sends a signal, to nobody outside of the namespace.
    let _ = unsafe { libc::kill(-1, libc::SIGKILL) };
}

/// fork(2) with flags. None: this is the child.
fn fork_into(flags: libc::c_int) -> io::Result<Option<Pid>> {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: without CLONE_VM and without a stack this is fork(2): the child has a copy of everything. The process has one
    // thread, so no lock is held by another. The argument that is last differs by architecture, and is null as well.
    let pid = unsafe { libc::syscall(libc::SYS_clone, i64::from(flags | libc::SIGCHLD), none, none, none, none) };
    match i32::try_from(pid) {
        Ok(0) => Ok(None),
        Ok(pid) if pid > 0 => Ok(Pid::from_raw(pid)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A user namespace in which two users have changed places with two others, as a mount takes it: what belongs to the first
/// of a pair shows as belonging to the second. For a process with one thread.
///
/// # Errors
/// The kernel or a container's filter does not allow it.
pub(super) fn swapped((user, other): (u32, u32), (group, other_group): (u32, u32)) -> io::Result<OwnedFd> {
    let (gate, open) = pipe_with(PipeFlags::CLOEXEC)?;
    let Some(child) = fork_into(libc::CLONE_NEWUSER)? else {
        drop(open);
        // Until the parent has opened the namespace, or is gone.
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

/// The mapping in which two numbers have changed places, and all others stay.
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

/// Each user keeps its number inside. A worker that is root maps all users it has, another one only itself.
fn map_users(child: Pid) -> io::Result<()> {
    let file = |name: &str| format!("/proc/{}/{name}", child.as_raw_nonzero());
    if geteuid().is_root() {
        std::fs::write(file("uid_map"), same(&std::fs::read_to_string("/proc/self/uid_map")?)?)?;
        return std::fs::write(file("gid_map"), same(&std::fs::read_to_string("/proc/self/gid_map")?)?);
    }
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // The kernel's condition for mapping a group without a capability (user_namespaces(7)).
    std::fs::write(file("setgroups"), "deny")?;
    std::fs::write(file("uid_map"), format!("{user} {user} 1"))?;
    std::fs::write(file("gid_map"), format!("{group} {group} 1"))
}

/// The mapping of a namespace below one with this mapping, in which numbers stay the same.
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
