//! The supervisor: the parent of one skill process, which kills and reaps everything that descends from it.
//!
//! A single thread, no runtime, no allocation worth naming: it is started for every run. If the run has namespaces of its own,
//! the supervisor is process 1 in them, and a copy of it waits outside for its end.
//!
//! - `child`: starting the skill; `end`: killing and reaping its tree; `report`: telling the worker
//! - `forks`: the same for a fork server and its children

#![allow(unsafe_code)]

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, WaitOptions, getpid, pidfd_open, set_child_subreaper, set_dumpable_behavior,
    setsid, waitpid,
};

pub(super) mod child;
mod end;
mod forks;
mod report;

use child::{close_on_exec, start};
use end::{End, GRACE};
use report::{not_started, report};

use super::jail::namespaces::{Side, split};
use super::jail::plan::{OwnNetwork, Plan};
use super::jail::prepared;
use super::jail::probe;
use super::packet::{self, DESCRIPTORS};
pub use super::protocol::ARGUMENT;
use super::protocol::{Command, Exit, Report};

/// Runs the supervisor: `openskill supervise`, with the control socket as standard input.
pub fn main() -> ExitCode {
    if std::env::args().nth(2).is_some_and(|it| it == probe::ARGUMENT) {
        return probe::main(std::env::args().skip(3));
    }
    // SAFETY: this is the first thing the process does, and nothing else uses descriptor 0.
    let control = unsafe { OwnedFd::from_raw_fd(0) };
    match supervise(control) {
        Ok(()) => ExitCode::SUCCESS,
        // The worker sees the end of the control socket without a report.
        Err(_) => ExitCode::FAILURE,
    }
}

fn supervise(control: OwnedFd) -> std::io::Result<()> {
    // The terminal's signals are for the worker, which ends its calls in order.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_no_new_privs(true)?;
    let (command, descriptors, mut further): (Command, _, _) = packet::receive_with(&control)?;
    close_on_exec()?;
    // Only outside of the namespaces is this process root of the file system.
    if let (Some(user), Some(root)) = (command.jail.as_ref().and_then(Plan::mapped_root), further.first_mut()) {
        match prepared::map_root(root, user) {
            Ok(mapped) => *root = mapped,
            Err(error) => return report(&control, not_started(&error)),
        }
    }
    if let Some(OwnNetwork(own_network)) = command.jail.as_ref().and_then(Plan::namespaces) {
        match split(own_network) {
            Ok(Side::Inside) => {}
            Ok(Side::Outside(child)) => {
                // Their ends are the child's alone: the worker sees when it closes them.
                drop((control, descriptors, further));
                return wait_for(child);
            }
            Err(error) => return report(&control, not_started(&error)),
        }
    }
    // Its skill may run under the same user, and must not trace it. Not before: who is not dumpable can't map its users.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    run(&control, &command, descriptors, further)
}

/// Waits for the end of the supervisor that is inside of its namespaces, and with it of all that is in them.
fn wait_for(child: Pid) -> std::io::Result<()> {
    match rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        _ => Err(std::io::Error::other("the supervisor in the namespaces failed")),
    }
}

/// Runs the command to its end.
fn run(
    control: &OwnedFd,
    command: &Command,
    descriptors: [OwnedFd; DESCRIPTORS],
    further: Vec<OwnedFd>,
) -> std::io::Result<()> {
    // Its temporary directory goes at the end of this function, when nothing runs that could use it.
    let mut jail = match prepared::prepare(command.jail.as_ref(), further.into_iter().next(), command.forks) {
        Ok(jail) => jail,
        Err(error) => return report(control, not_started(&error)),
    };
    if command.forks {
        return forks::supervise(control, command, descriptors, &mut jail);
    }
    let child = match start(command, descriptors, &mut jail, None) {
        Ok(child) => child,
        Err(error) => return report(control, not_started(&error)),
    };
    let (exit, leftovers, all_gone) = attend(control, child)?;
    report(control, Report::Ended { exit, leftovers })?;
    // What is left comes to the worker, which sweeps it up.
    if all_gone { Ok(()) } else { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) }
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
