//! The supervisor, which is the parent of one skill process. It kills and reaps all its descendants.
//!
//! It has one thread, no runtime and hardly any allocations, because each run starts one. If the run has its own
//! namespaces, the supervisor is process 1 inside them, and a copy of it waits outside until it ends.
//!
//! - `child`: starts the skill; `end`: kills and reaps its tree; `report`: reports to the worker
//! - `counted`: enforces the tree's limits
//! - `forks`: does all this for a fork server and its children

#![allow(unsafe_code)]

use std::os::fd::{AsFd as _, FromRawFd as _, OwnedFd};
use std::process::ExitCode;
use std::time::Duration;

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
use counted::{Counting, UsageWatch};
use end::{GRACE, TreeEnd};
use report::{not_started, report};

use super::bounds::Group;
use super::jail::Network;
use super::jail::mount::copy_id_mapped;
use super::jail::namespaces::{Side, bound_counters, raise_loopback, split};
use super::jail::prepared;
use super::jail::probe;
use super::packet::{self, DESCRIPTORS};
pub use super::protocol::ARGUMENT;
use super::protocol::{Command, Exit, RunReport};
use super::readiness::readable;

/// Runs the supervisor: `openskill supervise`, with the control socket as standard input.
pub fn main() -> ExitCode {
    if std::env::args().nth(2).is_some_and(|it| it == probe::ARGUMENT) {
        return probe::main(std::env::args().skip(3));
    }
    // SAFETY: this runs first in the process, and nothing else uses descriptor 0.
    let control = unsafe { OwnedFd::from_raw_fd(0) };
    // If this fails, the worker notices that the control socket closes without a report.
    if supervise(control).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn supervise(control: OwnedFd) -> std::io::Result<()> {
    // Only the worker reacts to the terminal's signals. It ends its calls in order.
    let _ = setsid();
    set_child_subreaper(Some(getpid()))?;
    rustix::thread::set_no_new_privs(true)?;
    let (command, descriptors, mut further): (Command, _, _) = packet::receive_with(&control)?;
    close_on_exec()?;
    let (group, side) = match separate(&command, further.first_mut()) {
        Ok(separated) => separated,
        Err(error) => return report(&control, not_started(&error)),
    };
    if let Side::Outside(child) = side {
        // Only the child keeps these descriptors.
        drop((descriptors, further));
        let counting = if command.forks { Counting::AllCalls } else { Counting::OneRun };
        return wait_for(child, &control, || counted::explain(group.as_ref(), counting));
    }
    // The skill may run as the same user, and must not trace this process. Do this only now, because a process
    // that is not dumpable can't map its users.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    run(&control, &command, descriptors, further, group.as_ref())
}

/// Creates the tree's group, and its namespaces if the jail has any. Then returns in both processes. `root`: the
/// allowed root, which this mounts as the skill's user sees it.
fn separate(command: &Command, root: Option<&mut OwnedFd>) -> std::io::Result<(Option<Group>, Side)> {
    let walls = command.walls();
    if let Some((walls, root)) = walls.zip(root) {
        if let Some(mode) = walls.root_mode {
            prepared::restore_mode(root, mode);
        }
        // This process has privileges in the file system only outside the namespaces.
        if let Some(user) = walls.identity.user.filter(|_| walls.map_root) {
            *root = copy_id_mapped(&*root, user)?;
        }
    }
    let group = counted::group(command)?;
    let Some(walls) = walls.filter(|it| it.namespaces) else { return Ok((group, Side::Inside)) };
    // The skill uses the worker's network, or none.
    let own_network = walls.network == Network::None;
    let side = split(own_network, |child| group.as_ref().map_or(Ok(()), |group| group.add(child)))?;
    if matches!(side, Side::Inside) {
        bound_counters();
        if walls.sandbox.is_some() {
            raise_loopback()?;
        }
    }
    Ok((group, side))
}

/// Waits until the supervisor inside the namespaces has ended, and with it everything in them.
fn wait_for(child: Pid, control: &OwnedFd, exceeded: impl FnOnce() -> Option<String>) -> std::io::Result<()> {
    match rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty()))? {
        Some((_, status)) if status.exit_status() == Some(0) => Ok(()),
        _ => match exceeded() {
            // The kernel killed the whole tree, including the supervisor, before it could report.
            Some(reason) => {
                report(control, RunReport::Ended { exit: Exit::Signal(9), leftovers: 0, exceeded: Some(reason) })
            }
            None => Err(std::io::Error::other("the supervisor in the namespaces failed")),
        },
    }
}

/// Runs the command until it has ended.
fn run(
    control: &OwnedFd,
    command: &Command,
    descriptors: [OwnedFd; DESCRIPTORS],
    further: Vec<OwnedFd>,
    group: Option<&Group>,
) -> std::io::Result<()> {
    // Dropping this at the end of the function removes the temporary directory, when no process uses it any more.
    let mut jail = match prepared::prepare(command.jail.as_ref(), further.into_iter().next(), command.forks) {
        Ok(jail) => jail,
        Err(error) => return report(control, not_started(&error)),
    };
    // With namespaces, this process is already in the group, and its children inherit this.
    let group_handle =
        group.filter(|_| !command.walls().is_some_and(|it| it.namespaces)).map(Group::handle).transpose()?;
    if command.forks {
        return forks::supervise(control, command, descriptors, &mut jail, group, group_handle);
    }
    let child = match start(command, descriptors, &mut jail, None, group_handle) {
        Ok(child) => child,
        Err(error) => return report(control, not_started(&error)),
    };
    let mut usage_watch = counted::bounds(command).and_then(|it| UsageWatch::for_run(it, group));
    let ((exit, leftovers, all_gone), exceeded) = attend(control, child, usage_watch.as_mut())?;
    // The kernel may have killed a child of the skill, which the skill's own exit status does not show.
    let counted = || counted::explain(group, Counting::OneRun);
    let exceeded = exceeded.or_else(counted).or_else(|| usage_watch.as_mut().and_then(|it| it.look_back(exit)));
    report(control, RunReport::Ended { exit, leftovers, exceeded })?;
    // The worker adopts the remaining processes, and sweeps them up.
    if all_gone { Ok(()) } else { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) }
}

/// Waits until the skill has exited or the worker has hung up, and then until the tree has ended.
///
/// Ends a tree that exceeds a limit, even while the skill runs.
fn attend(
    control: &OwnedFd,
    child: Pid,
    mut usage_watch: Option<&mut UsageWatch<'_>>,
) -> std::io::Result<((Exit, u32, bool), Option<String>)> {
    let ended = pidfd_open(child, PidfdFlags::empty())?;
    let (hung_up, exceeded) = loop {
        let exceeded = usage_watch.as_mut().and_then(|it| it.look());
        if exceeded.is_some() {
            break (true, exceeded);
        }
        let step = usage_watch.as_ref().map(|it| it.pause());
        match readable([control.as_fd(), ended.as_fd()], step)? {
            [true, _] => break (true, None),
            [_, true] => break (false, None),
            _ => {}
        }
    };
    let mut end = TreeEnd { child, exit: None, killed: Vec::new() };
    let patience = if hung_up { Duration::ZERO } else { GRACE };
    let all_gone = end.reap_all(control, patience);
    Ok(((end.exit.unwrap_or(Exit::Signal(9)), end.killed.len() as u32, all_gone), exceeded))
}
