//! A fork server: a process that has a program loaded and forks a child for each call.
//!
//! ```text
//! worker ──calls socket (a message and four descriptors each)──> idle children of the fork server
//!    │                                                             │ one takes it, runs it, exits
//!    └──control socket──> supervisor <──status socket── fork server and children
//!                             │ reports when all processes of a call have ended; kills calls on request
//! ```
//!
//! A run starts and ends as for a single process ([`super::run`]): its output is limited, its guard is dropped only
//! after its whole process tree has ended, and everything ends with the worker. [`super::protocol`] defines the
//! messages.

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::Shutdown;

use super::given_secrets::GivenSecrets;
use super::jail::identity::User;
use super::launch::{LaunchError, Launcher, Pipes};
use super::packet;
pub use super::protocol::ForkRequest;
use super::protocol::{Call, ColdImport, Command, Exit, ONLY_CALL};
use super::run::{Finished, RunError, converse};
use super::streams::ExitMessagePolicy;
use crate::event_channel::EventChannel;

mod attend;
mod calls;
mod kept;
#[cfg(any(test, feature = "testing"))]
mod testing;

use calls::{CallEnd, Calls, PendingCall};
pub use kept::{KeptProcess, KeptProcessEnd};
#[cfg(any(test, feature = "testing"))]
pub use testing::Unattended;

/// The maximum number of concurrent calls per fork server.
pub const MOST_CALLS: usize = 64;

/// A fork server, running or ended.
pub struct ForkServer {
    socket: OwnedFd,
    calls: Arc<Calls>,
    next: AtomicU64,
    /// The user of its processes, if that differs from the worker's user.
    owner: Option<User>,
}

/// The outcome of a call on a fork server.
pub enum Forked {
    /// The call ran, with this result.
    Ran(Result<Finished, RunError>),
    /// The script did not start, so another process may run the call.
    NotStarted,
}

impl ForkServer {
    /// Starts a fork server, which reads `program` from its descriptor 0. Must be called within a runtime that
    /// lives as long as the worker.
    ///
    /// # Errors
    /// Fails if its supervisor could not be started or the allowed root is missing.
    pub fn start(launcher: &Launcher, command: &Command, program: &[u8]) -> Result<Arc<Self>, LaunchError> {
        let (socket, theirs) = packet::pair()?;
        // This socket is never read, whatever the other end sends.
        rustix::net::shutdown(&socket, Shutdown::Read).map_err(std::io::Error::from)?;
        let calls = Arc::new(Calls::new());
        let guard = calls::Guard(Arc::clone(&calls));
        let (running, stderr) = launcher.launch_host(command, program, theirs, None, guard)?;
        // Calls have their own stderr, so this one does not contain their arguments.
        tokio::spawn(super::run::drain_to_log(stderr, GivenSecrets::default()));
        tokio::spawn(attend::attend(running, Arc::clone(&calls)));
        let owner = command.walls().and_then(|it| it.identity.user);
        Ok(Arc::new(Self { socket, calls, next: AtomicU64::new(ONLY_CALL + 1), owner }))
    }

    /// Returns the number of running calls. Excludes calls whose process is only being ended.
    pub fn in_flight(&self) -> usize {
        self.calls.count()
    }

    /// Returns whether it has loaded its program.
    pub fn is_ready(&self) -> bool {
        self.calls.is_ready()
    }

    /// Returns whether it accepts calls.
    pub fn is_open(&self) -> bool {
        self.calls.is_open()
    }

    /// Returns the files that it loaded. Empty before it is ready.
    pub fn files(&self) -> Vec<PathBuf> {
        self.calls.loaded(|it| it.files.clone())
    }

    /// Returns the imports that each of its calls repeats. Empty before it is ready.
    pub fn cold_imports(&self) -> Vec<ColdImport> {
        self.calls.loaded(|it| it.not_preloaded.clone())
    }

    /// Returns how long it has had no call.
    pub fn idle_for(&self) -> Duration {
        self.calls.idle_for()
    }

    /// Stops accepting calls. The fork server ends after the last one.
    pub fn retire(&self) {
        self.calls.close();
    }

    /// Waits until all its processes have ended. Call this after [`ForkServer::retire`].
    pub async fn wait_gone(&self) {
        self.calls.wait_gone().await;
    }

    /// Runs one call. Dropping the future kills the call's process tree; `guard` is dropped after that.
    pub async fn run(
        &self,
        request: ForkRequest<'_>,
        input: &[&[u8]],
        events: &impl EventChannel,
        guard: impl Send + 'static,
    ) -> Forked {
        let (mut pending, pipes) = match self.submit(request, Some(Box::new(guard)), None) {
            Ok(Some(submitted)) => submitted,
            Ok(None) => return Forked::NotStarted,
            Err(error) => return Forked::Ran(Err(LaunchError::Supervisor(error).into())),
        };
        let mut not_started = false;
        let report = async || match pending.wait().await {
            CallEnd::Report(report) => Ok(report),
            CallEnd::NotStarted => {
                not_started = true;
                Err(LaunchError::Lost)
            }
            CallEnd::Unknown => Err(LaunchError::Lost),
        };
        let finished = converse(pipes, input, events, ExitMessagePolicy::Believed, report).await;
        if let Ok(Finished { exit: Exit::Code(code), .. }) = finished {
            pending.leave(code);
        }
        if not_started { Forked::NotStarted } else { Forked::Ran(finished) }
    }

    /// Starts a process that outlives a call, and returns it with the worker's ends of its descriptors. Dropping
    /// it kills its process tree. Returns `None` if this fork server accepts no more calls. Must be called within
    /// a runtime that lives as long as the process.
    ///
    /// # Errors
    /// Fails if the system has no descriptors left.
    pub fn keep(&self, request: ForkRequest<'_>) -> std::io::Result<Option<(KeptProcess, Pipes)>> {
        let submitted = self.submit(request, None, Some(false))?;
        Ok(submitted.map(|(pending, pipes)| (KeptProcess(pending), pipes)))
    }

    /// Queues a call for an idle child. Returns `None` if it was not queued. `began`: `None` if its caller waits.
    fn submit(
        &self,
        request: ForkRequest<'_>,
        guard: Option<Box<dyn Send>>,
        began: Option<bool>,
    ) -> std::io::Result<Option<(PendingCall, Pipes)>> {
        let (pipes, theirs) = Pipes::open()?;
        if let Some(owner) = self.owner {
            super::supervise::child::hand_over(&theirs, owner);
        }
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(ended) = self.calls.open(call, guard) else { return Ok(None) };
        let message = Call { call, request };
        if let Err(error) = packet::send_with(&self.socket, &message, &theirs.each_ref().map(|it| it.as_fd())) {
            if openskill_telemetry::log::admits("a fork server did not take a call") {
                tracing::warn!(%error, "a fork server did not take a call");
            }
            self.calls.take_back(call);
            return Ok(None);
        }
        Ok(Some((PendingCall { ended: Some(ended), call, calls: Arc::clone(&self.calls), began }, pipes)))
    }
}
