//! The supervisor of a fork server: knows which call each of its children runs, and when a call is over.
//!
//! A call's process is the fork server's child, and a subreaper: all it starts stays below it while it lives. When it
//! ends, what it leaves behind comes here, because this process is the next subreaper above. So whoever is a child of
//! this process, and is not the fork server, was left behind by a call that has ended.
//!
//! Should a call kill the fork server, its siblings come here too and run on to their ends; no new ones are started.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, PidfdFlags, WaitOptions, getpid, pidfd_open, waitpid};

mod lines;
mod running;

use lines::Lines;
use running::Running;

use super::super::jail::Prepared;
use super::super::wire::{Command, DESCRIPTORS, Exit, Loaded, Notice, Order, Report};
use super::{End, GRACE, STEP, report, start, tree};

/// How many calls that may yet start are known to have been cancelled. Far more than wait for one fork server.
const MAX_CANCELLED: usize = 1024;

/// The most calls that a fork server can have: the worker gives it far fewer.
const MAX_RUNNING: usize = 4096;

/// How much of what the fork server says is read at a time, in chunks; and how often what is left behind is looked at anew.
const READS: usize = 16;
const LOOKS: usize = 100;

/// As a wait status: an exit code that no success has.
const UNKNOWN_END: i32 = 70 << 8;

/// How often the children of a fork server that is gone are looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Starts the fork server and stays until the worker hangs up, or until it and its last call have ended.
pub(super) fn supervise(
    mut control: UnixStream,
    command: &Command,
    descriptors: [OwnedFd; DESCRIPTORS],
    jail: &mut Prepared,
) -> std::io::Result<()> {
    let (status, status_theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    fcntl_setfl(&status, OFlags::NONBLOCK)?;
    let server = match start(command, descriptors, jail, Some(status_theirs)) {
        Ok(server) => server,
        Err(error) => return report(&mut control, &Report::NotStarted { errno: error.raw_os_error().unwrap_or(0) }),
    };
    let mut forks = Forks {
        server_end: pidfd_open(server, PidfdFlags::empty())?,
        control,
        status,
        server: Some(server),
        running: BTreeMap::new(),
        cancelled: BTreeSet::new(),
        ending: Vec::new(),
        orders: Lines::default(),
        words: Lines::default(),
        jail,
    };
    let attended = forks.attend();
    // Whatever ended it: nothing of it stays.
    let all_gone = End { child: server, exit: None, killed: Vec::new() }.of_all(&forks.control, Duration::ZERO);
    attended?;
    if all_gone { Ok(()) } else { Err(std::io::Error::from(std::io::ErrorKind::TimedOut)) }
}

/// A fork server and its calls.
struct Forks<'a> {
    control: UnixStream,
    status: OwnedFd,
    /// None once it has ended.
    server: Option<Pid>,
    server_end: OwnedFd,
    /// The process of each call that was started and has not ended.
    running: BTreeMap<u64, Running>,
    /// Calls that are to end as soon as they start.
    cancelled: BTreeSet<u64>,
    /// Calls whose process has ended, while what they left behind may be there.
    ending: Vec<Ending>,
    orders: Lines,
    words: Lines,
    jail: &'a Prepared,
}

struct Ending {
    call: u64,
    pid: i32,
    exit: Exit,
    folder: String,
    /// When what it left behind has had its time.
    until: Instant,
    killed: BTreeSet<i32>,
}

impl Forks<'_> {
    /// Until the worker hangs up, or nothing is left to wait for.
    fn attend(&mut self) -> std::io::Result<()> {
        while self.server.is_some() || !self.running.is_empty() || !self.ending.is_empty() {
            let [from_worker, from_server, ended] = self.wait()?;
            if from_worker && !self.take_orders()? {
                return Ok(());
            }
            if from_server || ended {
                self.take_words()?;
            }
            if ended && self.server.is_some() {
                self.lose_server()?;
            }
            if self.server.is_none() {
                self.reap();
                self.notice_lost();
            }
            self.settle()?;
        }
        Ok(())
    }

    /// Waits for something to happen: the worker's word, the fork server's, the fork server's end; or for a look.
    fn wait(&self) -> std::io::Result<[bool; 3]> {
        let step = if !self.ending.is_empty() { Some(STEP) } else { self.server.is_none().then_some(LOOK) };
        let timeout = step.map(|step| Timespec { tv_sec: 0, tv_nsec: step.subsec_nanos().into() });
        let mut waited = [
            PollFd::new(&self.control, PollFlags::IN),
            PollFd::new(&self.status, PollFlags::IN),
            PollFd::new(&self.server_end, PollFlags::IN),
        ];
        // Once the server is gone, its pipe and its end are always "ready": they are not waited for.
        let count = if self.server.is_some() { 3 } else { 1 };
        match poll(&mut waited[..count], timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => Ok([0, 1, 2].map(|it| it < count && !waited[it].revents().is_empty())),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the worker is still there.
    fn take_orders(&mut self) -> std::io::Result<bool> {
        let mut chunk = [0; 4096];
        match recv(&self.control, &mut chunk, RecvFlags::DONTWAIT) {
            Ok((0, _)) => return Ok(false),
            Ok((count, _)) => self.orders.push(&chunk[..count])?,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
        while let Some(line) = self.orders.next() {
            let Order::Kill(call) = serde_json::from_slice(&line)?;
            match self.running.get_mut(&call) {
                Some(running) => {
                    running.killed = true;
                    running.kill();
                }
                // Not started, or over already: numbers are not used twice, so the latter does no harm.
                None => {
                    self.cancelled.insert(call);
                    if self.cancelled.len() > MAX_CANCELLED {
                        self.cancelled.pop_first();
                    }
                }
            }
        }
        Ok(true)
    }

    fn take_words(&mut self) -> std::io::Result<()> {
        let mut chunk = [0; 4096];
        // So many at a time: whoever writes without end must not keep the worker's orders waiting.
        for _ in 0..READS {
            match rustix::io::read(&self.status, &mut chunk) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(count) => self.words.push(&chunk[..count])?,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            while let Some(line) = self.words.next() {
                self.take_word(&line)?;
            }
        }
        Ok(())
    }

    /// What a line says that no fork server would write is passed over: an import may have had the pipe in its hands.
    fn take_word(&mut self, line: &[u8]) -> std::io::Result<()> {
        if let Some(loaded) = line.strip_prefix(b"r ") {
            let loaded = serde_json::from_slice::<Loaded>(loaded).unwrap_or_default();
            return self.tell(&Notice::Ready(loaded));
        }
        let mut parts = std::str::from_utf8(line).unwrap_or_default().split(' ');
        let kind = parts.next();
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
        let (first, second) = (number(), number());
        match (kind, first, second) {
            (Some("s"), Some(call), Some(pid)) => {
                self.started(call, i32::try_from(pid).unwrap_or(0), parts.next().unwrap_or_default());
            }
            (Some("e"), Some(pid), Some(status)) => {
                self.ended(i32::try_from(pid).unwrap_or(0), status as i32, false);
            }
            _ => {}
        }
        Ok(())
    }

    /// A child has a call.
    fn started(&mut self, call: u64, pid: i32, folder: &str) {
        let server = self.server.map(|it| it.as_raw_nonzero().get());
        let parents = [server.unwrap_or_else(own_pid), own_pid()];
        if self.running.len() >= MAX_RUNNING || self.running.contains_key(&call) {
            return;
        }
        let Some(mut running) = Running::heard_of(pid, &parents, folder) else { return };
        if self.cancelled.remove(&call) {
            running.killed = true;
            running.kill();
        }
        self.running.insert(call, running);
    }

    /// A process of the fork server's has ended. An idle one's end is its own affair. `reaped`: it was our own child.
    fn ended(&mut self, pid: i32, status: i32, reaped: bool) {
        let found = self.running.iter().find(|(_, it)| it.pid == pid && (reaped || it.has_ended()));
        let Some(call) = found.map(|(call, _)| *call) else { return };
        let Some(running) = self.running.remove(&call) else { return };
        let status = ExitStatus::from_raw(status);
        let exit = status.code().map_or(Exit::Signal(status.signal().unwrap_or(0)), Exit::Code);
        let patience = if running.killed { Duration::ZERO } else { GRACE };
        let (until, killed, folder) = (Instant::now() + patience, BTreeSet::new(), running.folder);
        self.ending.push(Ending { call, pid, exit, folder, until, killed });
    }

    /// The fork server has ended: its idle children must not take a call any more, the others go on.
    fn lose_server(&mut self) -> std::io::Result<()> {
        let Some(server) = self.server.take() else { return Ok(()) };
        let _ = waitpid(Some(server), WaitOptions::NOHANG);
        for pid in tree::own_children() {
            if !self.running.values().any(|it| it.pid == pid) {
                tree::kill(pid);
            }
        }
        // One that was killed just now may have taken a call just before.
        self.take_words()?;
        self.tell(&Notice::Gone { running: self.running.keys().copied().collect() })
    }

    /// Calls that ended just before their fork server did, which could not say how any more.
    fn notice_lost(&mut self) {
        let lost: Vec<_> = self.running.values().filter(|it| it.has_ended()).map(|it| it.pid).collect();
        for pid in lost {
            self.ended(pid, UNKNOWN_END, false);
        }
    }

    /// Waits for children that have ended, a bounded number of them.
    fn reap(&mut self) {
        for _ in 0..1000 {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.ended(pid.as_raw_nonzero().get(), status.as_raw(), true),
                Err(Errno::INTR) => {}
                Ok(None) | Err(_) => return,
            }
        }
    }

    /// Reports the calls of which nothing is left.
    fn settle(&mut self) -> std::io::Result<()> {
        if self.ending.is_empty() {
            return Ok(());
        }
        let orphans = self.orphans();
        let now = Instant::now();
        let owned: Vec<Option<usize>> = orphans.iter().map(|orphan| self.owner(*orphan)).collect();
        self.end_orphans(&orphans, &owned, now);
        // A daemon has a session of its own: whose it is nobody can tell, so all that have ended wait for its end.
        let (mut index, unclaimed) = (0, owned.contains(&None));
        let mut over = Vec::new();
        self.ending.retain_mut(|ending| {
            let waits = unclaimed || owned.contains(&Some(index));
            index += 1;
            if !waits {
                over.push((ending.call, ending.exit, ending.killed.len() as u32, std::mem::take(&mut ending.folder)));
            }
            waits
        });
        for (call, exit, leftovers, folder) in over {
            self.tell(&Notice::Ended { call, exit, leftovers })?;
            self.jail.end_fork(&folder);
        }
        Ok(())
    }

    /// What calls that have ended left behind. When this is empty, nothing is: what a process that ends at this moment leaves
    /// has come here by the next look.
    fn orphans(&mut self) -> Vec<i32> {
        let server = self.server.map(|it| it.as_raw_nonzero().get());
        for _ in 0..LOOKS {
            let known = |pid: &i32| Some(*pid) == server || self.running.values().any(|it| it.pid == *pid);
            let orphans: Vec<_> = tree::own_children().into_iter().filter(|pid| !known(pid)).collect();
            let reaped = |pid: &i32| {
                let ended = Pid::from_raw(*pid).map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
                !matches!(ended, Some(Ok(None)))
            };
            let alive: Vec<_> = orphans.iter().copied().filter(|pid| !reaped(pid)).collect();
            if alive.len() == orphans.len() || !alive.is_empty() {
                return alive;
            }
        }
        // They come as fast as they go: somebody forks on and on.
        tree::own_children().into_iter().filter(|pid| Some(*pid) != server).collect()
    }

    /// The ended call in whose session a process is, by its place.
    fn owner(&self, orphan: i32) -> Option<usize> {
        let session = tree::session(orphan)?;
        self.ending.iter().position(|it| it.pid == session)
    }

    /// Ends what calls left behind, once they have given it time enough. What is nobody's is laid at the door of the one that
    /// ended first.
    fn end_orphans(&mut self, orphans: &[i32], owned: &[Option<usize>], now: Instant) {
        let mut snapshot = None;
        for (orphan, owner) in orphans.iter().zip(owned) {
            let Some(ending) = self.ending.get_mut(owner.unwrap_or(0)).filter(|it| it.until <= now) else { continue };
            ending.killed.insert(*orphan);
            let all = snapshot.get_or_insert_with(tree::Snapshot::take);
            for process in all.descendants(*orphan).into_iter().filter(|it| !it.zombie) {
                tree::kill(process.pid);
                ending.killed.insert(process.pid);
            }
            tree::kill(*orphan);
        }
    }

    fn tell(&mut self, notice: &Notice) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(notice)?;
        line.push(b'\n');
        // A worker that hung up is noticed at the next look.
        let _ = self.control.write_all(&line);
        Ok(())
    }
}

fn own_pid() -> i32 {
    getpid().as_raw_nonzero().get()
}
