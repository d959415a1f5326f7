//! Implements the worker's side of a supervisor: starts it, passes it the descriptors, and reads how the run
//! ended.

use std::io;
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

use super::packet::{self, DESCRIPTORS};
use super::protocol::{Command, Notice, ONLY_CALL, Order, RunReport};
use super::sockets::refuse_descriptors;
use super::strays::Strays;
use super::tree::{self, Snapshot};
use crate::allowed_root::{RootError, RunRoot};

/// The timeout for a supervisor to end its skill. After this, the worker kills the supervisor and its orphans.
const PATIENCE: Duration = Duration::from_millis(500);

/// The maximum number of searches for strays, and the pause between two of them.
const TRIES: usize = 100;
const STEP: Duration = Duration::from_millis(10);

/// Starts supervisors, and ensures that none outlives its run.
#[derive(Debug, Clone)]
pub struct Launcher {
    supervisor: PathBuf,
    strays: Arc<Strays>,
    endings: TaskTracker,
}

/// The worker's ends of a skill's pipes and sockets.
pub struct Pipes {
    /// Connected to the skill's descriptor 0.
    pub stdin: pipe::Sender,
    /// Connected to the skill's descriptor 1.
    pub stdout: pipe::Receiver,
    /// Connected to the skill's descriptor 2.
    pub stderr: pipe::Receiver,
    /// Receives event lines, and sends answers to the skill's questions.
    pub events: UnixStream,
}

impl Pipes {
    /// Creates the pipes and the event socket. Also returns the process's ends, in the order of its descriptors.
    ///
    /// # Errors
    /// Fails if the system has no descriptors left. Must be called within a runtime.
    pub(super) fn open() -> io::Result<(Self, [OwnedFd; DESCRIPTORS])> {
        let (stdin_theirs, stdin) = pipe_with(PipeFlags::CLOEXEC)?;
        let (stdout, stdout_theirs) = readable_pipe()?;
        let (stderr, stderr_theirs) = readable_pipe()?;
        // Both ends are close-on-exec. The process's end blocks, as a pipe does.
        let (events, events_theirs) = StdUnixStream::pair()?;
        events.set_nonblocking(true)?;
        refuse_descriptors(&events)?;
        let ours =
            Self { stdin: pipe::Sender::from_owned_fd(stdin)?, stdout, stderr, events: UnixStream::from_std(events)? };
        Ok((ours, [stdin_theirs, stdout_theirs, stderr_theirs, events_theirs.into()]))
    }
}

/// A supervised run. Dropping it kills the skill's process tree in a separate task, which keeps `G` until the tree
/// has ended.
pub struct SupervisedRun<G: Send + 'static> {
    live: Option<Live<G>>,
    launcher: Launcher,
}

struct Live<G> {
    control: Control,
    child: Child,
    pid: u32,
    guard: G,
}

/// The worker's end of a control socket. It carries packets, although its type is called a stream. Only [`packet`]
/// reads it.
pub(super) struct Control(UnixStream);

/// The reasons why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The supervisor or its pipes could not be created.
    #[error("the supervisor could not be started: {0}")]
    Supervisor(#[from] io::Error),
    /// The skill's allowed root is unavailable.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The supervisor was killed.
    #[error("the supervisor was lost")]
    Lost,
}

impl Launcher {
    /// Creates a launcher. `supervisor`: the openskill binary.
    pub fn new(supervisor: PathBuf, strays: Arc<Strays>) -> Self {
        Self { supervisor, strays, endings: TaskTracker::new() }
    }

    /// Waits until all dropped runs and their processes have ended.
    pub async fn wait_finished(&self) {
        self.endings.close();
        self.endings.wait().await;
    }

    /// Starts the binary in one of its hidden roles. Call [`Launcher::forget`] when the child has ended.
    pub fn start_as(&self, argument: &str, stdin: Stdio) -> io::Result<Child> {
        self.strays.start(|| {
            let child = tokio::process::Command::new(&self.supervisor)
                // Hides `/proc/self/exe` in process listings.
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
    pub fn forget(&self, pid: u32) {
        self.strays.forget(pid);
    }

    /// Starts `command`. Drops `guard` when the process tree has ended.
    ///
    /// # Errors
    /// Fails if the supervisor or its descriptors can't be created, or if the allowed root is unavailable.
    pub fn launch<G: Send>(&self, command: &Command, guard: G) -> Result<(SupervisedRun<G>, Pipes), LaunchError> {
        let (pipes, theirs) = Pipes::open()?;
        Ok((self.start(command, theirs.each_ref(), guard)?, pipes))
    }

    /// Starts a process that serves many calls, which it receives over `calls`. It reads `program` from descriptor
    /// 0 and writes to `stdout`, by default `/dev/null`. Returns the reading end of its stderr.
    ///
    /// # Errors
    /// Returns the errors of [`Launcher::launch`].
    pub fn launch_host<G: Send>(
        &self,
        command: &Command,
        program: &[u8],
        calls: OwnedFd,
        stdout: Option<OwnedFd>,
        guard: G,
    ) -> Result<(SupervisedRun<G>, pipe::Receiver), LaunchError> {
        let text = memory_file("openskill-forkserver", program)?;
        let stdout = match stdout {
            Some(stdout) => stdout,
            None => OwnedFd::from(std::fs::OpenOptions::new().write(true).open("/dev/null")?),
        };
        let (stderr, stderr_theirs) = readable_pipe()?;
        Ok((self.start(command, [&text, &stdout, &stderr_theirs, &calls], guard)?, stderr))
    }

    /// Starts `command` with these descriptors, in the order of the process's descriptors. Returns the reading end
    /// of its stderr.
    ///
    /// # Errors
    /// Returns the errors of [`Launcher::launch`].
    pub fn launch_with<G: Send>(
        &self,
        command: &Command,
        stdin: &OwnedFd,
        stdout: &OwnedFd,
        guard: G,
    ) -> Result<(SupervisedRun<G>, pipe::Receiver), LaunchError> {
        let (stderr, stderr_theirs) = readable_pipe()?;
        // The skill's user will own this file, so it must not be shared with other processes.
        let nothing = memory_file("openskill-nothing", b"")?;
        Ok((self.start(command, [stdin, stdout, &stderr_theirs, &nothing], guard)?, stderr))
    }

    fn start<G: Send>(
        &self,
        command: &Command,
        descriptors: [&OwnedFd; DESCRIPTORS],
        guard: G,
    ) -> Result<SupervisedRun<G>, LaunchError> {
        // Also open the root for a process without walls, so that it does not start in a replaced root.
        let root = command.root.as_ref().map(RunRoot::open).transpose()?;
        let root = root.filter(|_| command.walls().is_some_and(|it| it.root.is_some()));
        let descriptors: Vec<_> = descriptors.into_iter().chain(&root).map(|it| it.as_fd()).collect();
        let (control, theirs) = packet::pair()?;
        // Send this before the supervisor starts, because the socket buffers it.
        packet::send_with(&control, command, &descriptors)?;
        let control = Control(UnixStream::from_std(control.into())?);
        // Do this last, so that nothing can fail between the start and the value that ends the process when
        // dropped.
        let child = self.start_as(super::protocol::ARGUMENT, Stdio::from(theirs))?;
        let pid = child.id().unwrap_or_default();
        Ok(SupervisedRun { live: Some(Live { control, child, pid, guard }), launcher: self.clone() })
    }
}

fn memory_file(name: &str, content: &[u8]) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC)?;
    rustix::io::write(&file, content)?;
    Ok(file)
}

/// Creates a pipe that the process writes to. Also returns the process's end.
fn readable_pipe() -> io::Result<(pipe::Receiver, OwnedFd)> {
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC)?;
    Ok((pipe::Receiver::from_owned_fd(ours)?, theirs))
}

impl<G: Send + 'static> SupervisedRun<G> {
    /// Waits for the report on how the run ended. By then, the whole process tree has ended. Cancel safe. May be
    /// called again.
    ///
    /// # Errors
    /// Fails if the supervisor was lost before it could report.
    pub async fn report(&mut self) -> Result<RunReport, LaunchError> {
        let control = self.control().ok_or(LaunchError::Lost)?;
        match control.receive().await {
            Ok(Some(Notice::Ended { call: ONLY_CALL, report })) => {
                // The supervisor ends with its final cleanup.
                while let Ok(Some(_)) = control.receive().await {}
                Ok(report)
            }
            _ => Err(LaunchError::Lost),
        }
    }

    /// Returns the socket to the supervisor.
    pub(super) fn control(&self) -> Option<&Control> {
        self.live.as_ref().map(|live| &live.control)
    }
}

impl Control {
    /// Receives the supervisor's next message. Returns `None` after the supervisor has ended. Cancel safe.
    ///
    /// # Errors
    /// Fails if the packet is not a valid message.
    pub(super) async fn receive(&self) -> io::Result<Option<Notice>> {
        self.0.async_io(Interest::READABLE, || packet::receive(&self.0)).await
    }

    /// Sends an order to a fork server's supervisor. Never blocks.
    ///
    /// # Errors
    /// Fails if the supervisor has ended or does not read its orders.
    pub(super) fn send(&self, order: Order) -> io::Result<()> {
        packet::send(&self.0, &order)
    }
}

impl<G: Send + 'static> Drop for SupervisedRun<G> {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            self.launcher.endings.spawn(end(live, Arc::clone(&self.launcher.strays)));
        }
    }
}

/// Hangs up, and waits until the supervisor has ended its tree.
async fn end<G>(mut live: Live<G>, strays: Arc<Strays>) {
    // Closing the control socket makes the supervisor end its tree.
    let _ = rustix::net::shutdown(&live.control.0, Shutdown::Both);
    let in_time = tokio::time::timeout(PATIENCE, live.child.wait()).await;
    let clean = matches!(in_time, Ok(Ok(status)) if status.success());
    if in_time.is_err() {
        // The supervisor is stopped, or one of its descendants traces it. So kill the whole tree.
        kill_tree(&mut live.child, live.pid).await;
    }
    strays.forget(live.pid);
    if !clean {
        // The skill or this worker killed the supervisor, so this process adopted its orphans.
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

/// Sweeps until two consecutive sweeps find no stray. A killed stray's children arrive only after it has ended.
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
    use crate::sockets::sends_descriptors;

    #[tokio::test]
    async fn a_process_sends_events_and_no_descriptors() {
        let (pipes, [.., events]) = Pipes::open().unwrap();
        assert_ne!(sends_descriptors(&events), Some(true));
        rustix::io::write(&events, b"x").unwrap();
        pipes.events.readable().await.unwrap();
        assert_eq!(pipes.events.try_read(&mut [0; 9]).unwrap(), 1);
    }
}
