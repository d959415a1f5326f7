//! Starts the skill's process.
//!
//! Beside the supervisor's first line, the one place in openskill with unsafe code: descriptors that come by number, and
//! what a child does before it becomes the skill.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use openskill_proto::metadata::ENV_EVENTS_FD;
use rustix::fs::fchown;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{Gid, Pid, Resource, Rlimit, Signal, Uid, set_parent_process_death_signal, setrlimit, setsid};

use super::weight::Weight;
use crate::process::bounds::Entrance;
use crate::process::jail::identity::User;
use crate::process::jail::prepared::Prepared;
use crate::process::packet::DESCRIPTORS;
use crate::process::protocol::{Command, ProcessLimits};

/// Signals that wait, and timers, of the user of a process in its namespaces. The kernel adds them to those of the worker's user.
const MOST_SIGNALS: u64 = 128;

/// Names a fork server's end of its status socket.
const ENV_STATUS_FD: &str = "OPENSKILL_STATUS_FD";

/// Makes all inherited descriptors close-on-exec: a skill gets its four and no other.
pub(super) fn close_on_exec() -> std::io::Result<()> {
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in open {
        // SAFETY: the number was open a moment ago; at worst, for the listing's own, the call fails.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        if let Ok(flags) = fcntl_getfd(fd) {
            let _ = fcntl_setfd(fd, flags | FdFlags::CLOEXEC);
        }
    }
    Ok(())
}

/// Starts the program. `status` is a fork server's end of the status socket, `entrance` the way into the tree's group.
pub(super) fn start(
    command: &Command,
    descriptors: [OwnedFd; DESCRIPTORS],
    jail: &mut Prepared,
    (status, entrance): (Option<OwnedFd>, Option<Entrance>),
) -> std::io::Result<Pid> {
    if let Some(user) = jail.user() {
        hand_over(&descriptors, user);
    }
    let [stdin, stdout, stderr, events] = descriptors;
    fcntl_setfd(&events, FdFlags::empty())?;
    let mut limits = command.limits;
    limits.processes = limits.processes.saturating_add(jail.others());
    let weight = Weight::of(command.nice);
    let mut walls = jail.take();
    let mut process = std::process::Command::new(&command.program);
    process
        .args(&command.args)
        .env_clear()
        .envs(&command.env)
        .envs(jail.environment())
        .env(ENV_EVENTS_FD, events.as_raw_fd().to_string())
        .current_dir(&command.cwd)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr));
    if let Some(status) = &status {
        fcntl_setfd(status, FdFlags::empty())?;
        process.env(ENV_STATUS_FD, status.as_raw_fd().to_string());
    }
    // SAFETY: only system calls; no allocation, no lock.
    unsafe {
        process.pre_exec(move || {
            setsid()?;
            default_signals();
            if let Some(entrance) = &entrance {
                entrance.enter()?;
            }
            apply(limits)?;
            weight.apply();
            if let Some(walls) = &mut walls {
                walls.enter()?;
            }
            // If the supervisor is killed, so is the skill; its orphans come to the worker. Last, as becoming another user
            // undoes it.
            set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
        });
    }
    // Reaped in `End`, together with its orphans.
    let child = process.spawn()?;
    jail.started();
    Pid::from_raw(child.id() as i32).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
}

/// The pipes become its user's, so that the program can open them once more by their names (`/dev/stderr`).
pub(in crate::process) fn hand_over(descriptors: &[OwnedFd], user: User) {
    for descriptor in descriptors {
        let _ = fchown(descriptor, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)));
    }
}

/// Signals do what they do in any program that has just been started, whatever the worker was started with (`nohup`).
fn default_signals() {
    for signal in 1..=libc::SIGSYS {
        // SAFETY: sets no handler. SIGKILL and SIGSTOP are refused, which is as good.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn apply(limits: ProcessLimits) -> std::io::Result<()> {
    let wanted = [
        (Resource::As, limits.address_space_bytes),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_size_bytes),
        (Resource::Nproc, limits.processes),
        (Resource::Core, 0),
        (Resource::Sigpending, MOST_SIGNALS),
    ];
    for (resource, wanted) in wanted {
        limit(resource, wanted, wanted)?;
    }
    // SIGXCPU tells why it ended. Whoever ignores that is killed a second later.
    limit(Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds.saturating_add(1))
}

/// Lowers both limits; what is lower already stays.
fn limit(resource: Resource, soft: u64, hard: u64) -> std::io::Result<()> {
    let maximum = rustix::process::getrlimit(resource).maximum.map_or(hard, |most| most.min(hard));
    Ok(setrlimit(resource, Rlimit { current: Some(soft.min(maximum)), maximum: Some(maximum) })?)
}
