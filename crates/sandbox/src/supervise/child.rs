//! Starts the skill's process.
//!
//! The unsafe code uses descriptors by number, and runs code in a child before it executes the skill.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use openskill_proto::metadata::ENV_EVENTS_FD;
use rustix::fs::fchown;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{Gid, Pid, Resource, Rlimit, Signal, Uid, set_parent_process_death_signal, setrlimit, setsid};

use super::weight::Weight;
use crate::bounds::GroupHandle;
use crate::jail::identity::User;
use crate::jail::prepared::Prepared;
use crate::packet::DESCRIPTORS;
use crate::protocol::{Command, ProcessLimits};

/// The maximum number of queued signals and timers of a user in namespaces. The kernel adds them to those of the
/// worker's user.
const MOST_SIGNALS: u64 = 128;

/// The variable that contains the number of a fork server's end of its status socket.
const ENV_STATUS_FD: &str = "OPENSKILL_STATUS_FD";

/// Makes all inherited descriptors close-on-exec, so that a skill gets only its own four.
pub(super) fn close_on_exec() -> std::io::Result<()> {
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in open {
        // SAFETY: the number was open a moment ago. For the listing's own descriptor, which is closed by now, the
        // call just fails.
        let fd = unsafe { std::os::fd::BorrowedFd::borrow_raw(fd) };
        if let Ok(flags) = fcntl_getfd(fd) {
            let _ = fcntl_setfd(fd, flags | FdFlags::CLOEXEC);
        }
    }
    Ok(())
}

/// Starts the program. `status`: a fork server's end of the status socket. `group_handle`: moves the child into
/// the tree's group.
pub(super) fn start(
    command: &Command,
    descriptors: [OwnedFd; DESCRIPTORS],
    jail: &mut Prepared,
    status: Option<OwnedFd>,
    group_handle: Option<GroupHandle>,
) -> std::io::Result<Pid> {
    if let Some(user) = jail.walls.as_ref().and_then(|it| it.identity.user) {
        hand_over(&descriptors, user);
    }
    let [stdin, stdout, stderr, events] = descriptors;
    fcntl_setfd(&events, FdFlags::empty())?;
    let mut limits = command.limits;
    limits.processes = limits.processes.saturating_add(jail.others);
    let weight = Weight::new(command.nice);
    let mut walls = jail.walls.take();
    let mut process = std::process::Command::new(&command.program);
    process
        .args(&command.args)
        .env_clear()
        .envs(&command.env)
        .envs(std::mem::take(&mut jail.environment))
        .env(ENV_EVENTS_FD, events.as_raw_fd().to_string())
        .current_dir(&command.cwd)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr));
    if let Some(status) = &status {
        fcntl_setfd(status, FdFlags::empty())?;
        process.env(ENV_STATUS_FD, status.as_raw_fd().to_string());
    }
    // SAFETY: the closure only makes system calls. It neither allocates nor locks.
    unsafe {
        process.pre_exec(move || {
            setsid()?;
            default_signals();
            if let Some(group_handle) = &group_handle {
                group_handle.enter()?;
            }
            apply(limits)?;
            weight.apply();
            if let Some(walls) = &mut walls {
                walls.enter()?;
            }
            // If the supervisor is killed, the skill dies too, and the worker adopts its orphans. Do this last,
            // because changing the user resets it.
            set_parent_process_death_signal(Some(Signal::KILL)).map_err(Into::into)
        });
    }
    // `TreeEnd` reaps it together with its orphans.
    let child = process.spawn()?;
    jail.fork_rules = None;
    Pid::from_raw(child.id() as i32).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
}

/// Gives the pipes to the process's user, so that the program can open them again by name (`/dev/stderr`).
pub(crate) fn hand_over(descriptors: &[OwnedFd], user: User) {
    for descriptor in descriptors {
        let _ = fchown(descriptor, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)));
    }
}

/// Resets signals to their defaults, because the worker may have inherited others (`nohup`).
fn default_signals() {
    for signal in 1..=libc::SIGSYS {
        // SAFETY: this sets no handler. SIGKILL and SIGSTOP fail, which does no harm.
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
    // SIGXCPU shows why the process ended. A process that ignores it is killed one second later.
    limit(Resource::Cpu, limits.cpu_seconds, limits.cpu_seconds.saturating_add(1))
}

/// Lowers both limits. Keeps existing limits that are lower.
fn limit(resource: Resource, soft: u64, hard: u64) -> std::io::Result<()> {
    let maximum = rustix::process::getrlimit(resource).maximum.map_or(hard, |most| most.min(hard));
    Ok(setrlimit(resource, Rlimit { current: Some(soft.min(maximum)), maximum: Some(maximum) })?)
}
