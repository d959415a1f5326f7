//! A fork server: a process that has a program loaded, and forks a process of its own for each call.
//!
//! ```text
//! worker ──calls (a message and four descriptors each)──> idle children of the fork server
//!    │                                                          │ one takes it, runs it, ends
//!    └──control socket──> supervisor <──status pipe── fork server and children
//!                             │ says when a call is over and nothing of it is left; kills one when told to
//! ```
//!
//! What a run is, and how it ends, is the same as for a process of its own ([`super::run`]): pipes to its descriptors, a
//! whole tree that is gone before its place is free, and the end of the worker as the end of all.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde::Serialize;
use tokio::sync::{mpsc, oneshot};

use super::jail::{Plan, User};
use super::launch::{LaunchError, Launcher, Pipes, send_with};
use super::run::{Finished, RunError, converse};
use super::streams::Believed;
use super::wire::{Command, Exit, Order};
use crate::admission::Slot;
use crate::events::EventSink;

mod attend;
mod calls;

use calls::{Calls, End};

/// How long the end of a killed call may take before its fork server is given up, with all its calls. It is a matter of
/// milliseconds, unless somebody stopped the fork server.
const PATIENCE: Duration = Duration::from_secs(5);

/// Orders that wait to be sent: far more than it has calls.
const MAX_ORDERS: usize = 1024;

/// The longest message of a call, as the other side has it.
const MAX_CALL_BYTES: usize = 64 * 1024;

/// A fork server that is running, or was.
pub(crate) struct ForkServer {
    socket: OwnedFd,
    orders: mpsc::Sender<Order>,
    calls: Arc<Calls>,
    next: AtomicU64,
    launcher: Launcher,
    /// The user of its processes, if it is not the worker's.
    owner: Option<User>,
}

/// How a call on a fork server went.
pub(crate) enum Forked {
    /// It ran.
    Ran(Result<Finished, RunError>),
    /// The program never had the word: the call may go elsewhere.
    NotStarted,
}

/// What a call's process is told.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Call<'a> {
    /// What the call adds to the environment.
    pub(crate) env: &'a BTreeMap<&'static str, String>,
    /// The limit on the processes of its user.
    pub(crate) processes: u64,
}

/// What is sent with a call's descriptors.
#[derive(Serialize)]
struct Message<'a> {
    call: u64,
    #[serde(flatten)]
    told: Call<'a>,
}

impl ForkServer {
    /// Starts one. `program` is what it reads from its descriptor 0. Must be called within a runtime that lives as long as
    /// the worker.
    pub(crate) fn start(launcher: &Launcher, command: &Command, program: &[u8]) -> std::io::Result<Arc<Self>> {
        let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let calls = Arc::new(Calls::new());
        let (running, stderr) =
            launcher.launch_host(command, program, (theirs, None), calls::Guard(Arc::clone(&calls)))?;
        let (orders, to_send) = mpsc::channel(MAX_ORDERS);
        tokio::spawn(super::run::drain_to_log(stderr));
        tokio::spawn(attend::attend(running, Arc::clone(&calls), to_send));
        let owner = command.jail.as_ref().and_then(Plan::user);
        let (next, launcher) = (AtomicU64::new(1), launcher.clone());
        Ok(Arc::new(Self { socket, orders, calls, next, launcher, owner }))
    }

    /// How many calls it has, but for those that only have to be taken down.
    pub(crate) fn in_flight(&self) -> usize {
        self.calls.count()
    }

    /// Whether it serves calls by now.
    pub(crate) fn is_ready(&self) -> bool {
        self.calls.is_ready()
    }

    /// Whether it takes calls.
    pub(crate) fn is_open(&self) -> bool {
        self.calls.is_open()
    }

    /// The files it loaded; none before it serves calls.
    pub(crate) fn files(&self) -> Vec<PathBuf> {
        self.calls.loaded().map(|it| it.files).unwrap_or_default()
    }

    /// How long it has had no call.
    pub(crate) fn idle_for(&self) -> Duration {
        self.calls.idle_for()
    }

    /// Takes no more calls, and goes when the last one has ended.
    pub(crate) fn retire(&self) {
        self.calls.close();
    }

    /// Waits until nothing of it is left: after [`ForkServer::retire`].
    pub(crate) async fn wait_gone(&self) {
        self.calls.wait_gone().await;
    }

    /// Runs one call. Dropping the future ends the call's process tree, and lets `slot` go after that.
    pub(crate) async fn run(&self, told: &Call<'_>, input: &[&[u8]], events: &EventSink, slot: Slot) -> Forked {
        let (pipes, theirs) = match Pipes::open() {
            Ok(pipes) => pipes,
            Err(error) => return Forked::Ran(Err(LaunchError::Supervisor(error).into())),
        };
        if let Some(owner) = self.owner {
            super::supervise::hand_over(&theirs, owner);
        }
        let call = self.next.fetch_add(1, Ordering::Relaxed);
        let Some(ended) = self.calls.open(call, slot) else { return Forked::NotStarted };
        let mut ended = Watched { ended: Some(ended), call, server: self };
        if let Err(error) = self.send(&Message { call, told: *told }, &theirs) {
            tracing::warn!(%error, "a fork server took no call");
            self.calls.take_back(call);
            return Forked::NotStarted;
        }
        drop(theirs);
        let mut not_started = false;
        let report = async || match ended.wait().await {
            End::Report(report) => Ok(report),
            End::NotStarted => {
                not_started = true;
                Err(LaunchError::Lost)
            }
            End::Unknown => Err(LaunchError::Lost),
        };
        let finished = converse(pipes, input, events, Believed::ItsOwn, report).await;
        if let Ok(Finished { exit: Exit::Code(code), .. }) = finished {
            ended.leave(code);
        }
        if not_started { Forked::NotStarted } else { Forked::Ran(finished) }
    }

    fn send(&self, message: &Message<'_>, descriptors: &[OwnedFd; super::wire::DESCRIPTORS]) -> std::io::Result<()> {
        let text = serde_json::to_vec(message)?;
        if text.len() > MAX_CALL_BYTES {
            return Err(std::io::Error::from(std::io::ErrorKind::ArgumentListTooLong));
        }
        send_with(&self.socket, &[&text], descriptors.each_ref())
    }
}

/// A call whose end somebody waits for. Dropped before that, it is killed.
struct Watched<'a> {
    ended: Option<oneshot::Receiver<End>>,
    call: u64,
    server: &'a ForkServer,
}

impl Watched<'_> {
    async fn wait(&mut self) -> End {
        let Some(ended) = &mut self.ended else { return End::Unknown };
        let end = ended.await.unwrap_or(End::Unknown);
        self.ended = None;
        end
    }

    /// Its end is known, and is only to come.
    fn leave(mut self, code: i32) {
        if self.ended.take().is_some() {
            self.server.calls.leave(self.call, code);
        }
    }
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        let Some(ended) = self.ended.take() else { return };
        if !self.server.calls.has(self.call) {
            return;
        }
        if self.server.orders.try_send(Order::Kill(self.call)).is_err() {
            // It takes no orders any more.
            self.server.calls.condemn();
        }
        let calls = Arc::clone(&self.server.calls);
        self.server.launcher.see_to(async move {
            let stuck = async {
                // Until its imports are done it starts nothing: that is no reason to end the calls that wait for it.
                calls.wait_ready().await;
                tokio::time::sleep(PATIENCE).await;
            };
            tokio::select! {
                _ = ended => {}
                () = stuck => {
                    tracing::warn!("a fork server does not end its call: all of it is ended");
                    calls.condemn();
                }
            }
        });
    }
}
