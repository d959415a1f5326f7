//! Starts and ends a session's process.

use std::time::Duration;

use openskill_proto::v1::SkillError;
use openskill_sandbox::forkserver::{ForkRequest, ForkServer, KeptProcess};
use openskill_sandbox::launch::{LaunchError, Pipes};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::line::{LineReader, Read, SessionNotice, parse_notice};
use super::packages::PackageDir;

/// The timeout for a process to become ready. A fork takes a millisecond, but the fork server may have to start
/// first.
const START: Duration = Duration::from_secs(10);

/// A session's process. Dropping it kills the process tree.
pub(crate) struct SessionProcess {
    pub(super) kept: KeptProcess,
    pub(super) control: UnixStream,
    pub(super) lines: LineReader,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    /// The session's packages. `None` if this worker installs none.
    pub(crate) packages: Option<PackageDir>,
}

/// A new session's process, or the error for its call.
pub(crate) type NewSessionProcess = Result<SessionProcess, SkillError>;

/// The reasons why a process could not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// No descriptors are left.
    #[error("its descriptors could not be created: {0}")]
    Descriptors(#[from] std::io::Error),
    /// The fork server could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The fork server ended, or accepts no more processes.
    #[error("its fork server accepted no more processes")]
    NotTaken,
    /// The process did not become ready in time.
    #[error("it was not ready in time")]
    Silent,
}

impl SessionProcess {
    /// Starts a process, and waits until it accepts cells. Must be called within a runtime that lives as long as
    /// the process.
    ///
    /// # Errors
    /// Fails if the process does not become ready.
    pub(crate) async fn start(
        server: &ForkServer,
        request: ForkRequest<'_>,
        packages: Option<PackageDir>,
    ) -> Result<Self, StartError> {
        let Some((kept, pipes)) = server.keep(request)? else { return Err(StartError::NotTaken) };
        // Closing `stdin` here makes it empty. The process asks questions over the control stream.
        let Pipes { stdin: _, stdout, stderr, events: control } = pipes;
        let mut process = Self { kept, control, lines: LineReader::default(), stdout, stderr, packages };
        let ready = async {
            loop {
                match process.lines.next(&mut process.control).await {
                    Read::Line(line) if parse_notice(&line) == Some(SessionNotice::Ready(true)) => return Ok(()),
                    Read::Line(_) | Read::TooLong => {}
                    Read::End => return Err(StartError::NotTaken),
                }
            }
        };
        tokio::time::timeout(START, ready).await.map_err(|_| StartError::Silent)??;
        process.kept.has_begun();
        Ok(process)
    }

    /// Returns whether the process is alive, as far as the worker knows.
    pub(crate) fn is_alive(&self) -> bool {
        self.kept.is_alive()
    }

    /// Kills the process tree, and waits until it has ended.
    pub(crate) async fn end(self) {
        self.kept.end().await;
    }
}

/// The process's ends of its streams, for tests without a supervisor.
#[cfg(test)]
pub(super) struct Host {
    pub(super) control: UnixStream,
    pub(super) stdout: pipe::Sender,
    /// Kept open, together with the supervisor's replacement.
    _stderr: pipe::Sender,
    pub(super) supervisor: openskill_sandbox::forkserver::Unattended,
}

#[cfg(test)]
impl Host {
    pub(super) fn start() -> (SessionProcess, Self) {
        let (kept, supervisor) = openskill_sandbox::forkserver::Unattended::start();
        let (ours, theirs) = UnixStream::pair().expect("descriptors");
        let ((out, stdout), (err, stderr)) = (pipe::pipe().expect("a pipe"), pipe::pipe().expect("a pipe"));
        let process =
            SessionProcess { kept, control: ours, lines: LineReader::default(), stdout, stderr, packages: None };
        (process, Self { control: theirs, stdout: out, _stderr: err, supervisor })
    }
}
