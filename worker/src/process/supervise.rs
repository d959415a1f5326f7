//! The supervisor: the parent of one skill process, which kills and reaps everything that descends from it.
//!
//! A single thread, no runtime, no allocation worth naming: it is started for every run. If the run has namespaces of its own,
//! the supervisor is process 1 in them, and a copy of it waits outside for its end.
//!
//! - `child`: starting the skill; `end`: killing and reaping its tree; `report`: telling the worker
//! - `counted`: keeping it within its bounds
//! - `forks`: the same for a fork server and its children

#![allow(unsafe_code)]

use std::os::fd::{FromRawFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, WaitOptions, getpid, pidfd_open, set_child_subreaper, set_dumpable_behavior,
    setsid, waitpid,
};

pub(super) mod child;
mod counted;
mod end;
mod forks;
mod report;
mod weight;

use child::{close_on_exec, start};
use counted::{Counting, Measured};
use end::{End, GRACE};
use report::{not_started, report};

use super::bounds::Group;
use super::jail::namespaces::{Side, bound_counters, raise_loopback, split};
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
    if let (Some(mode), Some(root)) = (command.jail.as_ref().and_then(Plan::root_mode), further.first()) {
        prepared::restore_mode(root, mode);
    }
    // Only outside of the namespaces is this process root of the file system.
    if let (Some(user), Some(root)) = (command.jail.as_ref().and_then(Plan::mapped_root), further.first_mut()) {
        match prepared::map_root(root, user) {
            Ok(mapped) => *root = mapped,
            Err(error) => return report(&control, not_started(&error)),
        }
    }
    let counting = if command.forks { Counting::AllCalls } else { Counting::OneRun };
    let group = match counted::group(&command, counting) {
        Ok(group) => group,
        Err(error) => return report(&control, not_started(&error)),
    };
    if let Some(OwnNetwork(own_network)) = command.jail.as_ref().and_then(Plan::namespaces) {
        match split(own_network, |child| group.as_ref().map_or(Ok(()), |group| group.add(child))) {
            Ok(Side::Inside) => {
                bound_counters();
                let raised =
                    if command.jail.as_ref().is_some_and(Plan::has_loopback) { raise_loopback() } else { Ok(()) };
                if let Err(error) = raised {
                    return report(&control, not_started(&error));
                }
            }
            Ok(Side::Outside(child)) => {
                // Their ends are the child's alone.
                drop((descriptors, further));
                return wait_for(child, &control, || counted::explain(group.as_ref(), counting));
            }
            Err(error) => return report(&control, not_started(&error)),
        }
    }
    // Its skill may run under the same user, and must not trace it. Not before: who is not dumpable can't map its users.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    run(&control, &command, (descriptors, further), group.as_ref())
}

/// Waits for the end of the supervisor that is inside of its namespaces, and with it of all that is in them.
fn wait_for(child: Pid, control: &OwnedFd, exceeded: impl FnOnce() -> Option<String>) -> std::io::Result<()> {
    match rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        _ => match exceeded() {
            // The kernel killed the whole tree, and the supervisor in it, before that could say so.
            Some(reason) => {
                report(control, Report::Ended { exit: Exit::Signal(9), leftovers: 0, exceeded: Some(reason) })
            }
            None => Err(std::io::Error::other("the supervisor in the namespaces failed")),
        },
    }
}

/// Runs the command to its end.
fn run(
    control: &OwnedFd,
    command: &Command,
    (descriptors, further): ([OwnedFd; DESCRIPTORS], Vec<OwnedFd>),
    group: Option<&Group>,
) -> std::io::Result<()> {
    // Its temporary directory goes at the end of this function, when nothing runs that could use it.
    let mut jail = match prepared::prepare(command.jail.as_ref(), further.into_iter().next(), command.forks) {
        Ok(jail) => jail,
        Err(error) => return report(control, not_started(&error)),
    };
    // In namespaces, this process is in the group already, and so is what it starts.
    let entrance = group.filter(|_| !jail.is_apart()).map(Group::entrance).transpose()?;
    if command.forks {
        return forks::supervise(control, command, descriptors, &mut jail, (group, entrance));
    }
    let child = match start(command, descriptors, &mut jail, (None, entrance)) {
        Ok(child) => child,
        Err(error) => return report(control, not_started(&error)),
    };
    let mut measured = counted::bounds(command).and_then(|it| Measured::of_run(it, group));
    let ((exit, leftovers, all_gone), exceeded) = attend(control, child, measured.as_mut())?;
    // The kernel may have killed a child of the skill, of which its own exit says nothing.
    let counted = || counted::explain(group, Counting::OneRun);
    let exceeded = exceeded.or_else(counted).or_else(|| measured.as_mut().and_then(|it| it.look_back(exit)));
    report(control, Report::Ended { exit, leftovers, exceeded })?;
    // What is left comes to the worker, which sweeps it up.
    if all_gone { Ok(()) } else { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) }
}

/// Waits until the skill has exited or the worker hung up, and then until nothing of it is left.
///
/// A tree that has too much of something is ended: what it is comes second.
fn attend(
    control: &OwnedFd,
    child: Pid,
    mut measured: Option<&mut Measured<'_>>,
) -> std::io::Result<((Exit, u32, bool), Option<String>)> {
    let ended = pidfd_open(child, PidfdFlags::empty())?;
    let (hung_up, exceeded) = loop {
        let exceeded = measured.as_mut().and_then(|it| it.look());
        if exceeded.is_some() {
            break (true, exceeded);
        }
        let step = measured.as_ref().map(|it| it.pause());
        let step = step.map(|it| Timespec { tv_sec: it.as_secs() as i64, tv_nsec: it.subsec_nanos().into() });
        let mut waited = [PollFd::new(&control, PollFlags::IN), PollFd::new(&ended, PollFlags::IN)];
        match poll(&mut waited, step.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) if !waited[0].revents().is_empty() => break (true, None),
            Ok(_) if !waited[1].revents().is_empty() => break (false, None),
            Ok(_) => {}
        }
    };
    let mut end = End { child, exit: None, killed: Vec::new() };
    let patience = if hung_up { Duration::ZERO } else { GRACE };
    let all_gone = end.of_all(control, patience);
    Ok(((end.exit.unwrap_or(Exit::Signal(9)), end.killed.len() as u32, all_gone), exceeded))
}
