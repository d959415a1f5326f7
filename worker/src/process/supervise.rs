//! The supervisor: the parent of one skill process, which kills and reaps everything that descends from it.
//!
//! The one place in openskill with unsafe code: descriptors that come by number, and what a child does before it becomes
//! the skill.
//!
//! A single thread, no runtime, no allocation worth naming: it is started for every run.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, Instant};

use openskill_proto::metadata::ENV_EVENTS_FD;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::fchown;
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::process::{
    DumpableBehavior, Gid, Pid, PidfdFlags, Resource, Rlimit, Signal, Uid, WaitOptions, getpid, pidfd_open,
    set_child_subreaper, set_dumpable_behavior, set_parent_process_death_signal, setrlimit, setsid, wait,
};

mod forks;

use super::jail::{self, Prepared, User};
use super::packet::{self, DESCRIPTORS};
use super::protocol::{Command, Exit, Notice, ONLY_CALL, ProcessLimits, Report};
use super::tree::{self, Snapshot};

/// How long orphans may take to end by themselves: Python's own helper processes do, a moment after the script.
const GRACE: Duration = Duration::from_millis(200);

/// Between two looks at what is left.
const STEP: Duration = Duration::from_millis(2);

/// After this long, what is left can't be killed (it hangs in the kernel): report and exit.
const GIVE_UP: Duration = Duration::from_secs(5);

/// Names a fork server's end of its status socket.
const ENV_STATUS_FD: &str = "OPENSKILL_STATUS_FD";

/// The one argument that makes the openskill binary a supervisor.
pub const ARGUMENT: &str = "supervise";

/// Runs the supervisor: `openskill supervise`, with the control socket as standard input.
pub fn main() -> ExitCode {
    if std::env::args().nth(2).is_some_and(|it| it == jail::probe::ARGUMENT) {
        return jail::probe::main(std::env::args().nth(3).as_deref());
    }
    // SAFETY: this is the first thing the process does, and nothing else uses descriptor 0.
    let control = unsafe { OwnedFd::from_raw_fd(0) };
    match supervise(&control) {
        Ok(()) => ExitCode::SUCCESS,
        // The worker sees the end of the control socket without a report.
        Err(_) => ExitCode::FAILURE,
    }
}

fn supervise(control: &OwnedFd) -> std::io::Result<()> {
    // Its skill runs under the same user, and must not trace it.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    // The terminal's signals are for the worker, which ends its calls in order.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_no_new_privs(true)?;
    let (command, descriptors): (Command, _) = packet::receive_with(control)?;
    close_on_exec()?;
    // Its temporary directory goes at the end of this function, when nothing runs that could use it.
    let mut jail = match jail::prepare(command.jail.as_ref()) {
        Ok(jail) => jail,
        Err(error) => return report(control, not_started(&error)),
    };
    if command.forks {
        return forks::supervise(control, &command, descriptors, &mut jail);
    }
    let child = match start(&command, descriptors, &mut jail, None) {
        Ok(child) => child,
        Err(error) => return report(control, not_started(&error)),
    };
    let (exit, leftovers, all_gone) = attend(control, child)?;
    report(control, Report::Ended { exit, leftovers })?;
    // What is left comes to the worker, which sweeps it up.
    if all_gone { Ok(()) } else { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) }
}

/// Makes all inherited descriptors close-on-exec: a skill gets its four and no other.
fn close_on_exec() -> std::io::Result<()> {
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

/// Starts the program. `status` is a fork server's end of the status socket.
fn start(
    command: &Command,
    descriptors: [OwnedFd; DESCRIPTORS],
    jail: &mut Prepared,
    status: Option<OwnedFd>,
) -> std::io::Result<Pid> {
    if let Some(user) = jail.user() {
        hand_over(&descriptors, user);
    }
    let [stdin, stdout, stderr, events] = descriptors;
    fcntl_setfd(&events, FdFlags::empty())?;
    let mut limits = command.limits;
    limits.processes = limits.processes.saturating_add(jail.others());
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
            apply(limits)?;
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
    Pid::from_raw(child.id() as i32).ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotFound))
}

/// The pipes become its user's, so that the program can open them once more by their names (`/dev/stderr`).
pub(super) fn hand_over(descriptors: &[OwnedFd], user: User) {
    for descriptor in descriptors {
        let _ = fchown(descriptor, Some(Uid::from_raw(user.uid)), Some(Gid::from_raw(user.gid)));
    }
}

fn apply(limits: ProcessLimits) -> std::io::Result<()> {
    let wanted = [
        (Resource::As, limits.address_space_bytes),
        (Resource::Cpu, limits.cpu_seconds),
        (Resource::Nofile, limits.open_files),
        (Resource::Fsize, limits.file_size_bytes),
        (Resource::Nproc, limits.processes),
        (Resource::Core, 0),
    ];
    for (resource, wanted) in wanted {
        let most = rustix::process::getrlimit(resource).maximum.map_or(wanted, |most| most.min(wanted));
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
    }
    Ok(())
}

/// Waits until the skill has exited or the worker hung up, and then until nothing of it is left.
fn attend(control: &OwnedFd, child: Pid) -> std::io::Result<(Exit, u32, bool)> {
    let ended = pidfd_open(child, PidfdFlags::empty())?;
    let hung_up = loop {
        let mut waited = [PollFd::new(&control, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut waited, None) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) if !waited[0].revents().is_empty() => break true,
            Ok(_) if !waited[1].revents().is_empty() => break false,
            Ok(_) => {}
        }
    };
    let mut end = End { child, exit: None, killed: Vec::new() };
    let patience = if hung_up { Duration::ZERO } else { GRACE };
    let all_gone = end.of_all(control, patience);
    Ok((end.exit.unwrap_or(Exit::Signal(9)), end.killed.len() as u32, all_gone))
}

/// The end of a process tree.
struct End {
    child: Pid,
    exit: Option<Exit>,
    killed: Vec<i32>,
}

impl End {
    /// Reaps what exits by itself within `patience`, then kills and reaps the rest until none is left: what forks while it
    /// is being killed is found at the next look. Whether all are gone.
    fn of_all(&mut self, control: &OwnedFd, patience: Duration) -> bool {
        let begun = Instant::now();
        while self.reap() {
            if begun.elapsed() >= GIVE_UP {
                return false;
            }
            if begun.elapsed() >= patience || hung_up(control) {
                self.kill();
            }
            pause(STEP);
        }
        true
    }

    /// Reaps those that have exited, a bounded number of them: more may exit as fast. Whether any child is left.
    fn reap(&mut self) -> bool {
        for _ in 0..1000 {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.child => self.exit = Some(Exit::of_wait_status(status.as_raw())),
                Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
        true
    }

    fn kill(&mut self) {
        for process in Snapshot::take().descendants(getpid().as_raw_nonzero().get()) {
            if process.zombie {
                continue;
            }
            tree::kill(process.pid);
            if process.pid != self.child.as_raw_nonzero().get() && !self.killed.contains(&process.pid) {
                self.killed.push(process.pid);
            }
        }
    }
}

fn hung_up(control: impl AsFd) -> bool {
    let mut waited = [PollFd::new(&control, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut waited, Some(&now)).is_ok() && !waited[0].revents().is_empty()
}

fn pause(step: Duration) {
    let timeout = Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() };
    let _ = poll(&mut [], Some(&timeout));
}

fn report(control: &OwnedFd, report: Report) -> std::io::Result<()> {
    tell(control, &Notice::Ended { call: ONLY_CALL, report });
    Ok(())
}

fn not_started(error: &std::io::Error) -> Report {
    Report::NotStarted { errno: error.raw_os_error().unwrap_or(0) }
}

/// Tells the worker. One that has hung up does not listen any more: that is no failure.
fn tell(control: &OwnedFd, notice: &Notice) {
    let _ = packet::send(control, notice);
}
