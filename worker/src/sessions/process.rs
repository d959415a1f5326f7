//! The process of a session.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::line::{Lines, Read, Said, said};
use super::packages::Shelf;
use crate::process::forkserver::{ForkServer, Kept};
use crate::process::launch::{LaunchError, Pipes};

/// How long a process may take to get ready. A fork takes a millisecond, a fork server that must start first takes longer.
const START: Duration = Duration::from_secs(10);

/// Dropping it kills the process tree.
pub(crate) struct Process {
    pub(super) kept: Kept,
    pub(super) control: UnixStream,
    pub(super) lines: Lines,
    pub(super) stdout: pipe::Receiver,
    pub(super) stderr: pipe::Receiver,
    /// Its packages; none if this worker installs none.
    pub(crate) packages: Option<Shelf>,
}

/// Why there is no process.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    /// The system has no descriptors left.
    #[error("its descriptors could not be made: {0}")]
    Descriptors(#[from] std::io::Error),
    /// Its fork server could not be started.
    #[error(transparent)]
    Launch(#[from] LaunchError),
    /// The fork server ended, or accepts no more processes.
    #[error("its fork server took no more processes")]
    NotTaken,
    /// It did not report that it is ready.
    #[error("it was not ready in time")]
    Silent,
}

impl Process {
    /// Starts one, and waits until it takes cells. Must be called within a runtime that lives as long as the process.
    ///
    /// # Errors
    /// It is not ready.
    pub(crate) async fn start(
        server: &ForkServer,
        request: (&BTreeMap<&'static str, String>, u64, u8),
        packages: Option<Shelf>,
    ) -> Result<Self, StartError> {
        let Some((kept, pipes)) = server.keep(request)? else { return Err(StartError::NotTaken) };
        // Its stdin is empty: `stdin` is closed here. It asks by other means.
        let Pipes { stdin: _, stdout, stderr, events: control } = pipes;
        let mut process = Self { kept, control, lines: Lines::default(), stdout, stderr, packages };
        let ready = async {
            loop {
                match process.lines.next(&mut process.control).await {
                    Read::Line(line) if said(&line) == Some(Said::Ready(true)) => return Ok(()),
                    Read::Line(_) | Read::TooLong => {}
                    Read::End => return Err(StartError::NotTaken),
                }
            }
        };
        tokio::time::timeout(START, ready).await.map_err(|_| StartError::Silent)??;
        process.kept.has_begun();
        Ok(process)
    }

    /// Whether it is alive, as far as the worker knows.
    pub(crate) fn is_alive(&self) -> bool {
        self.kept.is_alive()
    }

    /// Kills its process tree and waits until it is gone.
    pub(crate) async fn end(self) {
        self.kept.end().await;
    }
}

/// The other ends of a process that no supervisor has, for tests of what talks with it.
#[cfg(test)]
pub(super) struct Host {
    pub(super) control: UnixStream,
    pub(super) stdout: pipe::Sender,
    /// Kept open, and what stands in for its supervisor.
    _stderr: pipe::Sender,
    pub(super) supervisor: crate::process::forkserver::Unattended,
}

#[cfg(test)]
impl Host {
    pub(super) fn start() -> (Process, Self) {
        let (kept, supervisor) = crate::process::forkserver::Unattended::start();
        let (ours, theirs) = UnixStream::pair().expect("descriptors");
        let ((out, stdout), (err, stderr)) = (pipe::pipe().expect("a pipe"), pipe::pipe().expect("a pipe"));
        let process = Process { kept, control: ours, lines: Lines::default(), stdout, stderr, packages: None };
        (process, Self { control: theirs, stdout: out, _stderr: err, supervisor })
    }
}
