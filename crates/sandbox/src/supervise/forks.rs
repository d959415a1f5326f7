//! The supervisor of a fork server. It tracks which call each child runs, and when a call has ended.
//!
//! ```text
//! idle child ──Started──> running ──its process exits──> ended ──its orphans are gone──> over: reported to the worker
//!                            │ Kill
//!                            └── SIGKILL
//! ```
//!
//! A call's process is a child of the fork server and a subreaper. While it lives, everything that it starts stays
//! below it. When it exits, this process adopts its orphans, because it is the next subreaper above. So a call
//! that has ended left behind each child of this process, except the fork server.
//!
//! If a call kills the fork server, this process also adopts the other calls. They run to their ends, but no new
//! calls start.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};

mod finishing;
mod running;

use finishing::FinishingCalls;
use running::RunningCall;

use super::super::jail::prepared::Prepared;
use super::super::packet::{self, DESCRIPTORS};
use super::super::protocol::{Command, Exit, Notice, Order, Phase, RunReport, Status};
use super::child::start;
use super::counted::{self, Counting};
use super::end::{GRACE, STEP, TreeEnd, reap_exited};
use super::report::{not_started, report, tell};
use super::weight::weigh_session_of;
use crate::bounds::{Group, GroupHandle, TreeBounds};
use crate::readiness::readable;
use crate::tree;

/// The maximum number of calls that can be cancelled before they start. Many more than wait for one fork server.
const MAX_CANCELLED: usize = 1024;

/// The maximum number of a fork server's calls. The worker assigns it far fewer.
const MAX_RUNNING: usize = 1024;

/// The maximum number of the fork server's messages that are read before the worker's orders are handled again.
const MAX_MESSAGES: usize = 1024;

/// The exit status of a process whose real status was lost with the fork server. This code never means success.
const UNKNOWN_EXIT: Exit = Exit::Code(70);

/// The interval between checks of the children of a fork server that has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Starts the fork server. Returns when the worker hangs up or when the fork server and its last call have ended.
pub(super) fn supervise(
    control: &OwnedFd,
    command: &Command,
    descriptors: [OwnedFd; DESCRIPTORS],
    jail: &mut Prepared,
    group: Option<&Group>,
    group_handle: Option<GroupHandle>,
) -> std::io::Result<()> {
    let (status, status_theirs) = packet::pair()?;
    let server = match start(command, descriptors, jail, Some(status_theirs), group_handle) {
        Ok(server) => server,
        Err(error) => return report(control, not_started(&error)),
    };
    let end = pidfd_open(server, PidfdFlags::empty())?;
    let mut forks = Forks {
        control,
        status,
        phase: Phase::Starting,
        server: Some(Server { pid: server.as_raw_nonzero().get(), end }),
        running: BTreeMap::new(),
        cancelled: BTreeSet::new(),
        finishing: FinishingCalls::default(),
        jail,
        group,
        bounds: counted::bounds(command),
    };
    let attended = forks.attend();
    // Kill all its processes, however it ended.
    let all_gone = TreeEnd { child: server, exit: None, killed: Vec::new() }.reap_all(control, Duration::ZERO);
    attended?;
    if all_gone { Ok(()) } else { Err(std::io::Error::from(ErrorKind::TimedOut)) }
}

/// A fork server and its calls.
struct Forks<'a> {
    control: &'a OwnedFd,
    status: OwnedFd,
    phase: Phase,
    /// `None` after the fork server has ended.
    server: Option<Server>,
    /// The processes of calls that have started but not exited.
    running: BTreeMap<u64, RunningCall>,
    /// The calls to kill as soon as they start.
    cancelled: BTreeSet<u64>,
    /// The calls whose process has exited but may have left other processes behind.
    finishing: FinishingCalls,
    jail: &'a Prepared,
    /// Counts the usage of the whole tree.
    group: Option<&'a Group>,
    /// The limits that apply to each call.
    bounds: Option<TreeBounds>,
}

/// The fork server's own process.
struct Server {
    pid: i32,
    /// Readable after the process has ended.
    end: OwnedFd,
}

impl Forks<'_> {
    /// Runs until the worker hangs up or until there is nothing left to wait for.
    fn attend(&mut self) -> std::io::Result<()> {
        while self.server.is_some() || !self.running.is_empty() || !self.finishing.0.is_empty() {
            let [from_worker, from_server, server_ended] = self.wait()?;
            if from_worker && !self.take_orders()? {
                return Ok(());
            }
            if from_server || server_ended {
                self.take_statuses();
            }
            if server_ended {
                self.lose_server();
            }
            if self.server.is_none() {
                self.reap();
            }
            self.running.values_mut().for_each(RunningCall::look);
            self.settle();
        }
        Ok(())
    }

    /// Waits for a message from the worker or the fork server, for the fork server's end, or for the next check.
    fn wait(&self) -> std::io::Result<[bool; 3]> {
        let step = match () {
            () if !self.finishing.0.is_empty() => Some(STEP),
            () if self.server.is_none() => Some(LOOK),
            () => (!self.running.is_empty()).then_some(counted::LOOK),
        };
        let Some(server) = &self.server else {
            // After the fork server has ended, its descriptors would always be ready.
            return readable([self.control.as_fd()], step).map(|[from_worker]| [from_worker, false, false]);
        };
        readable([self.control.as_fd(), self.status.as_fd(), server.end.as_fd()], step)
    }

    /// Handles the worker's orders. Returns whether the worker is still connected.
    fn take_orders(&mut self) -> std::io::Result<bool> {
        loop {
            match packet::receive(self.control) {
                Ok(Some(Order::Kill(call))) => self.kill(call),
                Ok(Some(Order::Interrupt(call))) => self.interrupt(call),
                Ok(None) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
        }
    }

    fn kill(&mut self, call: u64) {
        match self.running.get_mut(&call) {
            Some(running) => running.kill(),
            // The call has not started or has already ended. In the latter case this does no harm, because numbers
            // are never reused.
            None => {
                self.cancelled.insert(call);
                if self.cancelled.len() > MAX_CANCELLED {
                    self.cancelled.pop_first();
                }
            }
        }
    }

    fn interrupt(&self, call: u64) {
        if let Some(running) = self.running.get(&call) {
            running.interrupt();
        }
        tell(self.control, &Notice::Interrupted(call));
    }

    fn take_statuses(&mut self) {
        for _ in 0..MAX_MESSAGES {
            match packet::receive(&self.status) {
                Ok(Some(Status::Ready(loaded))) if self.phase == Phase::Starting => {
                    self.phase = Phase::Serving;
                    tell(self.control, &Notice::Ready(loaded));
                }
                Ok(Some(Status::Started { call, pid, first, folder })) if self.phase == Phase::Serving => {
                    self.record_start(call, pid, first, folder);
                }
                Ok(Some(Status::Exited { pid, status, leftovers })) => {
                    self.record_exit(pid, Exit::from_wait_status(status), leftovers, false);
                }
                // The message is not allowed now, or not from the fork server: an import may have written to the
                // socket.
                Ok(Some(_)) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Records that a child has taken a call.
    fn record_start(&mut self, call: u64, pid: i32, first: i32, folder: String) {
        let server = self.server.as_ref().map_or_else(tree::own_pid, |it| it.pid);
        if self.running.len() >= MAX_RUNNING || self.running.contains_key(&call) {
            return;
        }
        let Some(mut running) = RunningCall::new(pid, first, &[server, tree::own_pid()], folder, self.bounds) else {
            return;
        };
        weigh_session_of(pid);
        if self.cancelled.remove(&call) {
            running.kill();
        }
        self.running.insert(call, running);
    }

    /// Records that the fork server's child has exited. `leftovers`: the number of processes that it left running,
    /// which were killed. `reaped`: whether this process was its parent. Does not report idle children to the
    /// worker.
    fn record_exit(&mut self, pid: i32, exit: Exit, mut leftovers: u32, reaped: bool) {
        let found = self.running.iter().find(|(_, it)| it.pid == pid && (reaped || it.has_exited()));
        let Some(call) = found.map(|(call, _)| *call) else { return };
        if let Some(mut running) = self.running.remove(&call) {
            if exit == Exit::Signal(9) && !running.killed {
                // Ask the group only if this process has not killed the call.
                running.exceeded = counted::explain(self.group, Counting::AllCalls);
            }
            running.exceeded = running.exceeded.take().or_else(|| running.explain(exit));
            if reaped && let Some(first) = running.first {
                // The fork server would have ended the call's namespace, but has ended itself.
                leftovers += tree::Snapshot::take().descendants(first).iter().filter(|it| !it.zombie).count() as u32;
                tree::kill(first);
            }
            let patience = if running.killed { Duration::ZERO } else { GRACE };
            self.finishing.add(call, running, exit, leftovers, patience);
        }
    }

    /// Handles the end of the fork server: stops its idle children from taking calls, and lets the others
    /// continue.
    fn lose_server(&mut self) {
        let Some(server) = self.server.take() else { return };
        let _ = waitpid(Pid::from_raw(server.pid), WaitOptions::NOHANG);
        for pid in tree::own_children() {
            if !self.running.values().any(|it| it.is(pid)) {
                tree::kill(pid);
            }
        }
        // A child that was just killed may have taken a call right before.
        self.take_statuses();
        self.phase = Phase::Orphaned;
        // Calls that have exited and wait for their orphans have also run, so the worker must not consider them
        // not started.
        let running = self.running.keys().copied().chain(self.finishing.0.iter().map(|it| it.call)).collect();
        tell(self.control, &Notice::ServerEnded { running });
    }

    /// Reaps children of a fork server that has ended.
    fn reap(&mut self) {
        reap_exited(|pid, exit| self.record_exit(pid.as_raw_nonzero().get(), exit, 0, true));
        // Children that exited right before their fork server, which could no longer report their exit status.
        let lost: Vec<_> = self.running.values().filter(|it| it.has_exited()).map(|it| it.pid).collect();
        for pid in lost {
            self.record_exit(pid, UNKNOWN_EXIT, 0, false);
        }
    }

    /// Reports calls whose processes have all ended.
    fn settle(&mut self) {
        if self.finishing.0.is_empty() {
            return;
        }
        let server = self.server.as_ref().map(|it| it.pid);
        let running = &self.running;
        let is_known = |pid: i32| Some(pid) == server || running.values().any(|it| it.is(pid));
        for over in self.finishing.take_over(is_known) {
            let leftovers = over.leftovers.saturating_add(over.killed.len() as u32);
            let report = RunReport::Ended { exit: over.exit, leftovers, exceeded: over.exceeded };
            tell(self.control, &Notice::Ended { call: over.call, report });
            self.jail.end_fork(&over.folder);
        }
    }
}
