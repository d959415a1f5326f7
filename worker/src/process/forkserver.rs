//! A fork server: a process that has a program loaded, and forks a process of its own for each call.
//!
//! ```text
//! worker ──calls socket (a message and four descriptors each)──> idle children of the fork server
//!    │                                                             │ one takes it, runs it, exits
//!    └──control socket──> supervisor <──status socket── fork server and children
//!                             │ says when a call is over and nothing of it is left; kills one when told to
//! ```
//!
//! A run, and its end, are the same as for a process of its own ([`super::run`]): bounded output, a whole process tree that
//! is gone before its slot is free, and the end of the worker as the end of all. The messages are in [`super::protocol`].

use std::collections::BTreeMap;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::Shutdown;
use tokio::sync::oneshot;

use super::given_secrets::GivenSecrets;
use super::jail::identity::User;
use super::jail::plan::Plan;
use super::launch::{LaunchError, Launcher, Pipes};
use super::packet;
use super::protocol::{Call, ColdImport, Command, Exit, ONLY_CALL};
use super::run::{Finished, RunError, converse};
use super::streams::LastWord;
use crate::events::EventSink;
use crate::schedule::Slot;

mod attend;
mod calls;
mod kept;

use calls::{Calls, End};
#[cfg(test)]
pub(crate) use kept::Unattended;
pub(crate) use kept::{Kept, KeptEnd};

/// The most calls of one fork server at once.
pub(crate) const MOST_CALLS: usize = 64;

/// A fork server that is running, or was.
pub(crate) struct ForkServer {
    socket: OwnedFd,
    calls: Arc<Calls>,
    next: AtomicU64,
    /// The user of its processes, if it is not the worker's.
    owner: Option<User>,
}

/// How a call on a fork server went.
pub(crate) enum Forked {
    /// It ran.
    Ran(Result<Finished, RunError>),
    /// The script did not begin: the call may go elsewhere.
    NotStarted,
}

impl ForkServer {
    /// Starts one. `program` is what it reads from its descriptor 0. Must be called within a runtime that lives as long as
    /// the worker.
    ///
    /// # Errors
    /// Its supervisor could not be started, or there is no allowed root.
    pub(crate) fn start(launcher: &Launcher, command: &Command, program: &[u8]) -> Result<Arc<Self>, LaunchError> {
        let (socket, theirs) = packet::pair()?;
        // Nothing comes from there, whoever has the other end.
        rustix::net::shutdown(&socket, Shutdown::Read).map_err(std::io::Error::from)?;
        let calls = Arc::new(Calls::new());
        let guard = calls::Guard(Arc::clone(&calls));
        let (running, stderr) = launcher.launch_host(command, program, (theirs, None), guard)?;
        // Its calls have descriptors of their own: no argument of theirs comes there.
        tokio::spawn(super::run::drain_to_log(stderr, GivenSecrets::default()));
        tokio::spawn(attend::attend(running, Arc::clone(&calls)));
        let owner = command.jail.as_ref().and_then(Plan::user);
        Ok(Arc::new(Self { socket, calls, next: AtomicU64::new(ONLY_CALL + 1), owner }))
    }

    /// How many calls it runs. Those whose process is only being taken down do not count.
    pub(crate) fn in_flight(&self) -> usize {
        self.calls.count()
    }

    /// Whether it has loaded its program.
    pub(crate) fn is_ready(&self) -> bool {
        self.calls.is_ready()
    }

    /// Whether it takes calls.
    pub(crate) fn is_open(&self) -> bool {
        self.calls.is_open()
    }

    /// The files it loaded; none before it is ready.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.calls.files()
    }

    /// The imports that each of its calls runs again; none before it is ready.
    pub(crate) fn cold_imports(&self) -> Vec<ColdImport> {
        self.calls.cold_imports()
    }

    /// How long it has had no call.
    pub(crate) fn idle_for(&self) -> Duration {
        self.calls.idle_for()
    }

    /// Takes no more calls, and ends after the last one.
    pub(crate) fn retire(&self) {
        self.calls.close();
    }

    /// Waits until nothing of it is left: after [`ForkServer::retire`].
    pub(crate) async fn wait_gone(&self) {
        self.calls.wait_gone().await;
    }

    /// Runs one call: `env` is what it adds to the environment, `processes` the limit on the processes of its user.
    /// Dropping the future kills the call's process tree, and frees `slot` after that.
    pub(crate) async fn run(
        &self,
        (env, processes): (&BTreeMap<&'static str, String>, u64),
        input: &[&[u8]],
        events: &EventSink,
        slot: Slot,
    ) -> Forked {
        let nice = slot.nice();
        let (call, ended, pipes) = match self.submit((env, processes, nice), Some(slot)) {
            Ok(Some(submitted)) => submitted,
            Ok(None) => return Forked::NotStarted,
            Err(error) => return Forked::Ran(Err(LaunchError::Supervisor(error).into())),
        };
        let mut watched = Watched { ended: Some(ended), call, calls: &self.calls };
        let mut not_started = false;
        let report = async || match watched.wait().await {
            End::Report(report) => Ok(report),
            End::NotStarted => {
                not_started = true;
                Err(LaunchError::Lost)
            }
            End::Unknown => Err(LaunchError::Lost),
        };
        let finished = converse(pipes, input, events, LastWord::Believed, report).await;
        if let Ok(Finished { exit: Exit::Code(code), .. }) = finished {
            watched.leave(code);
        }
        if not_started { Forked::NotStarted } else { Forked::Ran(finished) }
    }

    /// Starts a process that outlives a call, with our ends of its descriptors. Dropping it kills its process tree. `None`: this
    /// fork server accepts no more. Must be called within a runtime that lives as long as the process.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub(crate) fn keep(
        &self,
        (env, processes, nice): (&BTreeMap<&'static str, String>, u64, u8),
    ) -> std::io::Result<Option<(Kept, Pipes)>> {
        let submitted = self.submit((env, processes, nice), None)?;
        Ok(submitted.map(|(call, ended, pipes)| (Kept::new(ended, call, &self.calls), pipes)))
    }

    /// Queues a call for an idle child. `None`: it was not queued.
    fn submit(
        &self,
        (env, processes, nice): (&BTreeMap<&'static str, String>, u64, u8),
        slot: Option<Slot>,
    ) -> std::io::Result<Option<(u64, oneshot::Receiver<End>, Pipes)>> {
        let (pipes, theirs) = Pipes::open()?;
        if let Some(owner) = self.owner {
            super::supervise::child::hand_over(&theirs, owner);
        }
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(ended) = self.calls.open(call, slot) else { return Ok(None) };
        let message = Call { call, env, processes, nice };
        if let Err(error) = packet::send_with(&self.socket, &message, &theirs.each_ref().map(|it| it.as_fd())) {
            if openskill_log::admits("a fork server took no call") {
                tracing::warn!(%error, "a fork server took no call");
            }
            self.calls.take_back(call);
            return Ok(None);
        }
        Ok(Some((call, ended, pipes)))
    }
}

/// A call whose end somebody waits for. Dropped before that, it is killed.
struct Watched<'a> {
    ended: Option<oneshot::Receiver<End>>,
    call: u64,
    calls: &'a Calls,
}

impl Watched<'_> {
    async fn wait(&mut self) -> End {
        let Some(ended) = &mut self.ended else { return End::Unknown };
        let end = ended.await.unwrap_or(End::Unknown);
        self.ended = None;
        end
    }

    /// Its exit code is known from its last word; its process is still to exit.
    fn leave(mut self, code: i32) {
        if self.ended.take().is_some() {
            self.calls.leave(self.call, code);
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if self.ended.is_some() {
            self.calls.kill(self.call);
        }
    }
}
