//! The supervisor of a fork server: knows which call each of its children runs, and when a call is over.
//!
//! ```text
//! idle child ──Started──> running ──its process exits──> ended ──no orphan of it is left──> over: the worker is told
//!                            │ Kill
//!                            └── SIGKILL
//! ```
//!
//! A call's process is a child of the fork server, and a subreaper: all it starts stays below it while it lives. When it
//! exits, its orphans come here, because this process is the next subreaper above. So a child of this process that is not
//! the fork server was left behind by a call that has ended.
//!
//! Should a call kill the fork server, its siblings come here too and run on to their ends; no new ones are started.

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, WaitOptions, pidfd_open, waitpid};

mod ended;
mod running;

use ended::Ended;
use running::Running;

use super::super::jail::prepared::Prepared;
use super::super::packet::{self, DESCRIPTORS};
use super::super::protocol::{Command, Exit, Notice, Order, Phase, Report, Status};
use super::child::start;
use super::counted::{self, Counting};
use super::end::{End, GRACE, STEP};
use super::report::{not_started, report, tell};
use super::weight::weigh_session_of;
use crate::process::bounds::{Bounds, Entrance, Group};
use crate::process::tree;

/// How many calls that have not started may be cancelled. Far more than wait for one fork server.
const MAX_CANCELLED: usize = 1024;

/// The most calls that a fork server can have: the worker gives it far fewer.
const MAX_RUNNING: usize = 1024;

/// How many messages of the fork server are read before the worker's orders have their turn again.
const MAX_MESSAGES: usize = 1024;

/// The exit status of a process whose own was lost with the fork server: a code that no success has.
const UNKNOWN_EXIT: Exit = Exit::Code(70);

/// How often the supervisor looks at the children of a fork server that has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Starts the fork server and stays until the worker hangs up, or until it and its last call have ended.
pub(super) fn supervise(
    control: &OwnedFd,
    command: &Command,
    descriptors: [OwnedFd; DESCRIPTORS],
    jail: &mut Prepared,
    (group, entrance): (Option<&Group>, Option<Entrance>),
) -> std::io::Result<()> {
    let (status, status_theirs) = packet::pair()?;
    let server = match start(command, descriptors, jail, (Some(status_theirs), entrance)) {
        Ok(server) => server,
        Err(error) => return report(control, not_started(&error)),
    };
    let end = pidfd_open(server, PidfdFlags::empty())?;
    let mut forks = Forks {
        control,
        status,
        phase: Phase::Starting,
        server: Some(Server { pid: server, end }),
        running: BTreeMap::new(),
        cancelled: BTreeSet::new(),
        ended: Ended::default(),
        jail,
        group,
        bounds: counted::bounds(command),
    };
    let attended = forks.attend();
    // Whatever ended it: nothing of it stays.
    let all_gone = End { child: server, exit: None, killed: Vec::new() }.of_all(control, Duration::ZERO);
    attended?;
    if all_gone { Ok(()) } else { Err(std::io::Error::from(ErrorKind::TimedOut)) }
}

/// A fork server and its calls.
struct Forks<'a> {
    control: &'a OwnedFd,
    status: OwnedFd,
    phase: Phase,
    /// None once it has ended.
    server: Option<Server>,
    /// The process of each call that was started and has not exited.
    running: BTreeMap<u64, Running>,
    /// Calls to kill as soon as they start.
    cancelled: BTreeSet<u64>,
    /// Calls whose process has exited, while something they left behind may be there.
    ended: Ended,
    jail: &'a Prepared,
    /// What counts all of it.
    group: Option<&'a Group>,
    /// What each call may have.
    bounds: Option<Bounds>,
}

/// The fork server's own process.
struct Server {
    pid: Pid,
    /// Readable once it has ended.
    end: OwnedFd,
}

impl Server {
    fn number(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }
}

impl Forks<'_> {
    /// Until the worker hangs up, or nothing is left to wait for.
    fn attend(&mut self) -> std::io::Result<()> {
        while self.server.is_some() || !self.running.is_empty() || !self.ended.is_empty() {
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
            self.running.values_mut().for_each(Running::look);
            self.settle();
        }
        Ok(())
    }

    /// Waits for a message of the worker or of the fork server, for the fork server's end, or for the time of the next look.
    fn wait(&self) -> std::io::Result<[bool; 3]> {
        let step = match () {
            () if !self.ended.is_empty() => Some(STEP),
            () if self.server.is_none() => Some(LOOK),
            () => (!self.running.is_empty()).then_some(counted::LOOK),
        };
        let timeout = step.map(|step| Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() });
        let mut waited = vec![PollFd::new(self.control, PollFlags::IN)];
        // Once the server has ended, both would always be ready.
        if let Some(server) = &self.server {
            waited.extend([PollFd::new(&self.status, PollFlags::IN), PollFd::new(&server.end, PollFlags::IN)]);
        }
        match poll(&mut waited, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {
                Ok([0, 1, 2].map(|it| waited.get(it).is_some_and(|it| !it.revents().is_empty())))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the worker is still there.
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
            // Not started, or over already: numbers are not used twice, so the latter does no harm.
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
                    self.started(call, pid, (first, folder));
                }
                Ok(Some(Status::Exited { pid, status, leftovers })) => {
                    self.exited(pid, (Exit::of_wait_status(status), leftovers), false);
                }
                // Not allowed now, or no message of a fork server: an import may have had the socket in its hands.
                Ok(Some(_)) => {}
                Err(error) if error.kind() == ErrorKind::InvalidData => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// A child has a call.
    fn started(&mut self, call: u64, pid: i32, (first, folder): (i32, String)) {
        let server = self.server.as_ref().map_or_else(tree::own_pid, Server::number);
        if self.running.len() >= MAX_RUNNING || self.running.contains_key(&call) {
            return;
        }
        let Some(mut running) = Running::new((pid, first), &[server, tree::own_pid()], folder, self.bounds) else {
            return;
        };
        weigh_session_of(pid);
        if self.cancelled.remove(&call) {
            running.kill();
        }
        self.running.insert(call, running);
    }

    /// A child of the fork server has exited, and left so many processes that were killed; an idle one is not the worker's
    /// affair. `reaped`: it was our own child.
    fn exited(&mut self, pid: i32, (exit, mut leftovers): (Exit, u32), reaped: bool) {
        let found = self.running.iter().find(|(_, it)| it.pid == pid && (reaped || it.has_exited()));
        let Some(call) = found.map(|(call, _)| *call) else { return };
        if let Some(mut running) = self.running.remove(&call) {
            if exit == Exit::Signal(9) && !running.killed {
                // Not we have killed it.
                running.exceeded = counted::explain(self.group, Counting::AllCalls);
            }
            running.exceeded = running.exceeded.take().or_else(|| running.explain(exit));
            if reaped && let Some(first) = running.first {
                // The fork server that would end the call's namespace has ended.
                leftovers += tree::Snapshot::take().descendants(first).iter().filter(|it| !it.zombie).count() as u32;
                tree::kill(first);
            }
            let patience = if running.killed { Duration::ZERO } else { GRACE };
            self.ended.add(call, running, (exit, leftovers), patience);
        }
    }

    /// The fork server has ended: its idle children must not take a call any more, the others go on.
    fn lose_server(&mut self) {
        let Some(server) = self.server.take() else { return };
        let _ = waitpid(Some(server.pid), WaitOptions::NOHANG);
        for pid in tree::own_children() {
            if !self.running.values().any(|it| it.is(pid)) {
                tree::kill(pid);
            }
        }
        // One that was killed just now may have taken a call just before.
        self.take_statuses();
        self.phase = Phase::Orphaned;
        // Calls that have exited and wait for their orphans ran too: the worker must not take them for not started.
        let running = self.running.keys().copied().chain(self.ended.calls()).collect();
        tell(self.control, &Notice::ServerEnded { running });
    }

    /// Reaps children of the fork server that has ended, a bounded number of them.
    fn reap(&mut self) {
        for _ in 0..1000 {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    self.exited(pid.as_raw_nonzero().get(), (Exit::of_wait_status(status.as_raw()), 0), true);
                }
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => break,
            }
        }
        // Those that exited just before their fork server, which could not say how any more.
        let lost: Vec<_> = self.running.values().filter(|it| it.has_exited()).map(|it| it.pid).collect();
        for pid in lost {
            self.exited(pid, (UNKNOWN_EXIT, 0), false);
        }
    }

    /// Reports the calls of which nothing is left.
    fn settle(&mut self) {
        if self.ended.is_empty() {
            return;
        }
        let server = self.server.as_ref().map(Server::number);
        let running = &self.running;
        let is_known = |pid: i32| Some(pid) == server || running.values().any(|it| it.is(pid));
        for over in self.ended.take_over(is_known) {
            let report = Report::Ended { exit: over.exit, leftovers: over.leftovers, exceeded: over.exceeded };
            tell(self.control, &Notice::Ended { call: over.call, report });
            self.jail.end_fork(&over.folder);
        }
    }
}
