//! The worker's side of a supervisor: start it, give it the descriptors, read how the run ended.

use std::io::Result;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::Shutdown;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::process::Child;
use tokio_util::task::TaskTracker;

use super::jail::plan::Plan;
use super::packet::{self, DESCRIPTORS};
use super::protocol::{Command, Notice, ONLY_CALL, Order, Report};
use super::sockets::refuse_descriptors;
use super::strays::Strays;
use super::tree::{self, Snapshot};
use crate::allowed_root::{RootError, RunRoot};

/// How long a supervisor may take to end its skill before the worker kills it and sweeps up its orphans.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often, and how far apart, the worker looks for what is left.
const TRIES: usize = 100;
const STEP: Duration = Duration::from_millis(10);

/// Starts supervisors, and makes sure that none outlives its run.
#[derive(Debug, Clone)]
pub(crate) struct Launcher {
    supervisor: PathBuf,
    strays: Arc<Strays>,
    endings: TaskTracker,
}

/// The worker's ends of a skill's descriptors.
pub(crate) struct Pipes {
    pub(crate) stdin: pipe::Sender,
    pub(crate) stdout: pipe::Receiver,
    pub(crate) stderr: pipe::Receiver,
    /// Event lines come in, answers to the skill's questions go out.
    pub(crate) events: UnixStream,
}

impl Pipes {
    /// New pipes and the socket for events: our ends, and those of the process, in the order of its descriptors.
    ///
    /// # Errors
    /// The system has no descriptors left. Must be called within a runtime.
    pub(super) fn open() -> Result<(Self, [OwnedFd; DESCRIPTORS])> {
        let (stdin_theirs, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, stdout_theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stderr, stderr_theirs) = pipe_with(PipeFlags::CLOEXEC)?;
        // Close-on-exec both. The process's end blocks, as a pipe would.
        let (events, events_theirs) = StdUnixStream::pair()?;
        events.set_nonblocking(true)?;
        refuse_descriptors(&events)?;
        let ours = Self {
            stdin: pipe::Sender::from_owned_fd(stdin)?,
            stdout: pipe::Receiver::from_owned_fd(stdout)?,
            stderr: pipe::Receiver::from_owned_fd(stderr)?,
            events: UnixStream::from_std(events)?,
        };
        Ok((ours, [stdin_theirs, stdout_theirs, stderr_theirs, events_theirs.into()]))
    }
}

/// A run. Dropping it kills the skill's whole process tree, in a task of its own that keeps `G` until that is done.
pub(crate) struct Running<G: Send + 'static> {
    live: Option<Live<G>>,
    launcher: Launcher,
}

struct Live<G> {
    control: Control,
    child: Child,
    pid: u32,
    guard: G,
}

/// The worker's end of a control socket: packets, though the type says stream. It is read by [`packet`] alone.
pub(super) struct Control(UnixStream);

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    /// The supervisor or its pipes could not be made.
    #[error("the supervisor could not be started: {0}")]
    Supervisor(#[from] std::io::Error),
    /// The skill has no allowed root now.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The supervisor died: somebody killed it.
    #[error("the supervisor was lost")]
    Lost,
}

impl Launcher {
    pub(crate) fn new(supervisor: PathBuf, strays: Arc<Strays>) -> Self {
        Self { supervisor, strays, endings: TaskTracker::new() }
    }

    /// Waits until every dropped run is over and nothing of it is left.
    pub(crate) async fn finished(&self) {
        self.endings.close();
        self.endings.wait().await;
    }

    /// Starts the binary in one of its hidden roles. Report its end to [`Launcher::ended`].
    pub(crate) fn start_as(&self, argument: &str, stdin: Stdio) -> Result<Child> {
        self.strays.start(|| {
            let child = tokio::process::Command::new(&self.supervisor)
                // Not `/proc/self/exe`, where processes are shown.
                .arg0("openskill")
                .arg(argument)
                .env_clear()
                .stdin(stdin)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()?;
            let pid = child.id();
            Ok((child, pid))
        })
    }

    /// Forgets a child that has ended.
    pub(crate) fn ended(&self, pid: u32) {
        self.strays.ended(pid);
    }

    /// Starts `command`. `guard` is dropped when the process tree is gone.
    ///
    /// # Errors
    /// The supervisor or its descriptors could not be made, or there is no allowed root.
    pub(crate) fn launch<G: Send>(
        &self,
        command: &Command,
        guard: G,
    ) -> std::result::Result<(Running<G>, Pipes), LaunchError> {
        let (pipes, theirs) = Pipes::open()?;
        Ok((self.start(command, theirs.each_ref(), guard)?, pipes))
    }

    /// Starts a process that serves many calls, which it receives over `calls`. It reads `program` from descriptor 0 and
    /// writes to `stdout`, by default `/dev/null`. Gives the reading end of its stderr.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub(crate) fn launch_host<G: Send>(
        &self,
        command: &Command,
        program: &[u8],
        (calls, stdout): (OwnedFd, Option<OwnedFd>),
        guard: G,
    ) -> std::result::Result<(Running<G>, pipe::Receiver), LaunchError> {
        let text = memfd_create("openskill-forkserver", MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        rustix::io::write(&text, program).map_err(std::io::Error::from)?;
        let stdout = match stdout {
            Some(stdout) => stdout,
            None => OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/null")?),
        };
        let (stderr, stderr_theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let stderr = pipe::Receiver::from_owned_fd(stderr)?;
        Ok((self.start(command, [&text, &stdout, &stderr_theirs, &calls], guard)?, stderr))
    }

    /// Starts `command` with these descriptors, in the order of those of the process. Gives the reading end of its stderr.
    ///
    /// # Errors
    /// As [`Launcher::launch`].
    pub(crate) fn launch_with<G: Send>(
        &self,
        command: &Command,
        (stdin, stdout): (&OwnedFd, &OwnedFd),
        guard: G,
    ) -> std::result::Result<(Running<G>, pipe::Receiver), LaunchError> {
        let (stderr, stderr_theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(std::io::Error::from)?;
        let stderr = pipe::Receiver::from_owned_fd(stderr)?;
        // It becomes the process's own, so it must be nothing that others use.
        let nothing = memfd_create("openskill-nothing", MemfdFlags::CLOEXEC).map_err(std::io::Error::from)?;
        Ok((self.start(command, [stdin, stdout, &stderr_theirs, &nothing], guard)?, stderr))
    }

    fn start<G: Send>(
        &self,
        command: &Command,
        descriptors: [&OwnedFd; DESCRIPTORS],
        guard: G,
    ) -> std::result::Result<Running<G>, LaunchError> {
        // Opened for a process without walls as well: it is not started in a root that was replaced.
        let root = command.root.as_ref().map(RunRoot::open).transpose()?;
        let root = root.filter(|_| command.jail.as_ref().is_some_and(Plan::takes_root));
        let descriptors: Vec<_> = descriptors.into_iter().chain(&root).map(|it| it.as_fd()).collect();
        let (control, theirs) = packet::pair()?;
        // Sent before the supervisor starts: the socket keeps it.
        packet::send_with(&control, command, &descriptors)?;
        let control = Control(UnixStream::from_std(control.into())?);
        // Last, so that nothing can fail between the start and the value whose drop ends it.
        let child = self.start_as(super::protocol::ARGUMENT, Stdio::from(theirs))?;
        let pid = child.id().unwrap_or_default();
        Ok(Running { live: Some(Live { control, child, pid, guard }), launcher: self.clone() })
    }
}

impl<G: Send + 'static> Running<G> {
    /// How the run ended. When this is known, nothing of the process tree is left. Safe to drop and call again until then.
    ///
    /// # Errors
    /// The supervisor was lost before it could say.
    pub(crate) async fn report(&mut self) -> std::result::Result<Report, LaunchError> {
        let control = self.control().ok_or(LaunchError::Lost)?;
        match control.receive().await {
            Ok(Some(Notice::Ended { call: ONLY_CALL, report })) => {
                control.closed().await;
                Ok(report)
            }
            _ => Err(LaunchError::Lost),
        }
    }

    /// The socket to the supervisor.
    pub(super) fn control(&self) -> Option<&Control> {
        self.live.as_ref().map(|live| &live.control)
    }
}

impl Control {
    /// The supervisor's next message. None: it has ended. Safe to drop and call again.
    ///
    /// # Errors
    /// What came is no message.
    pub(super) async fn receive(&self) -> Result<Option<Notice>> {
        self.0.async_io(Interest::READABLE, || packet::receive(&self.0)).await
    }

    /// Tells the supervisor of a fork server something. Never waits.
    ///
    /// # Errors
    /// It has ended, or does not read what it is told.
    pub(super) fn send(&self, order: Order) -> Result<()> {
        packet::send(&self.0, &order)
    }

    /// Waits until the supervisor has ended, with all that it cleans up last.
    async fn closed(&self) {
        while let Ok(Some(_)) = self.receive().await {}
    }

    /// Tells the supervisor to end its tree, if there is one.
    fn hang_up(&self) {
        let _ = rustix::net::shutdown(&self.0, Shutdown::Both);
    }
}

impl<G: Send + 'static> Drop for Running<G> {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            self.launcher.endings.spawn(end(live, Arc::clone(&self.launcher.strays)));
        }
    }
}

/// Hangs up and waits for the supervisor to end its tree.
async fn end<G>(mut live: Live<G>, strays: Arc<Strays>) {
    live.control.hang_up();
    let in_time = tokio::time::timeout(PATIENCE, live.child.wait()).await;
    let clean = matches!(in_time, Ok(Ok(status)) if status.success());
    if in_time.is_err() {
        // Stopped, or held by a tracer among its own descendants: kill all of them.
        kill_tree(&mut live.child, live.pid).await;
    }
    strays.ended(live.pid);
    if !clean {
        // Killed by its skill, or by us: its orphans have come to this process.
        sweep_up(&strays).await;
    }
    drop(live.guard);
}

async fn kill_tree(child: &mut Child, pid: u32) {
    for _ in 0..TRIES {
        let looked = tokio::task::spawn_blocking(move || {
            let descendants = Snapshot::take().descendants(pid as i32);
            descendants.iter().for_each(|process| tree::kill(process.pid));
        });
        let _ = looked.await;
        let _ = child.start_kill();
        if tokio::time::timeout(STEP, child.wait()).await.is_ok() {
            return;
        }
    }
}

/// Sweeps until no stray is found twice in a row: the children of a killed one arrive only after it.
async fn sweep_up(strays: &Arc<Strays>) {
    let mut clear = 0;
    for _ in 0..TRIES {
        let strays = Arc::clone(strays);
        let found = tokio::task::spawn_blocking(move || strays.sweep()).await.unwrap_or_default();
        clear = if found == 0 { clear + 1 } else { 0 };
        if clear == 2 {
            return;
        }
        tokio::time::sleep(STEP).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::sockets::sends_descriptors;

    #[tokio::test]
    async fn a_process_sends_events_and_no_descriptors() {
        let (pipes, [.., events]) = Pipes::open().unwrap();
        assert_ne!(sends_descriptors(&events), Some(true));
        rustix::io::write(&events, b"x").unwrap();
        pipes.events.readable().await.unwrap();
        assert_eq!(pipes.events.try_read(&mut [0; 9]).unwrap(), 1);
    }
}
