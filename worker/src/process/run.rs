//! One whole run of a process: arguments in, output and events out, all of it bounded.

use std::time::Duration;

use futures_util::FutureExt as _;
use openskill_proto::limits::MAX_OUTPUT_BYTES;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

use super::launch::{LaunchError, Launcher, Pipes};
use super::streams::{Believed, Stop, Written, answer, forward};
use super::protocol::{Command, Exit, Report};
use crate::events::EventSink;

/// How long the pipes may stay open after the process tree is gone.
const PIPES_GRACE: Duration = Duration::from_secs(1);

/// What a process gave.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) stdout: Vec<u8>,
    /// The end of it.
    pub(crate) stderr: Vec<u8>,
    pub(crate) exit: Exit,
    pub(crate) leftovers: u32,
}

/// Why it gave nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("could not be started: {}", std::io::Error::from_raw_os_error(*errno))]
    NotStarted { errno: i32 },
    #[error("printed more than {MAX_OUTPUT_BYTES} bytes")]
    OutputTooLarge,
    #[error("ended, but a process outside of it holds its output open")]
    StillOpen,
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// Runs `command` with `input` on its stdin. Dropping the future ends the process tree; `guard` is let go after that.
pub(crate) async fn run<G: Send + 'static>(
    launcher: &Launcher,
    command: &Command,
    input: &[&[u8]],
    events: &EventSink,
    guard: G,
) -> Result<Finished, RunError> {
    let (mut running, pipes) = launcher.launch(command, guard)?;
    converse(pipes, input, events, Believed::Report, async || running.report().await).await
}

/// Talks to a process until it has ended: `report` says how, once it has, or the process itself, if that is believed.
pub(super) async fn converse(
    mut pipes: Pipes,
    input: &[&[u8]],
    events: &EventSink,
    believed: Believed,
    report: impl AsyncFnOnce() -> Result<Report, LaunchError>,
) -> Result<Finished, RunError> {
    let (mut stdout, mut stderr) = (Written::whole(pipes.stdout), Written::tail(pipes.stderr));
    let (report, told) = {
        let (from, to) = pipes.events.split();
        let spoken = Notify::new();
        // Until all are closed, or the process has told with which code it ended.
        let open = async {
            let written = write(pipes.stdin, input).map(Ok);
            let forwarded = forward(from, events, believed, &spoken);
            let closed = async { tokio::try_join!(stdout.read(), stderr.read(), written, forwarded) };
            let closed = tokio::select! {
                closed = closed => closed,
                // Nothing waits for answers to be read.
                never = answer(to, events, &spoken) => match never {},
            };
            match closed {
                Ok(_) => Ok(None),
                Err(Stop::Told(code)) => Ok(Some(code)),
                Err(Stop::TooLarge) => Err(RunError::OutputTooLarge),
            }
        };
        let mut open = std::pin::pin!(open);
        let mut report = std::pin::pin!(report());
        tokio::select! {
            biased;
            told = &mut open => match told? {
                None => (report.await?, false),
                Some(code) => (by_itself(code), true),
            },
            report = &mut report => {
                // The tree is gone, and its ends of the pipes with it, but for one that was handed to somebody else.
                match tokio::time::timeout(PIPES_GRACE, open).await.map_err(|_| RunError::StillOpen)?? {
                    None => (report?, false),
                    // Who should have reported it was lost, and it has told.
                    Some(code) => (report.unwrap_or_else(|_| by_itself(code)), true),
                }
            }
        }
    };
    if told && (stdout.read_rest().is_err() || stderr.read_rest().is_err()) {
        return Err(RunError::OutputTooLarge);
    }
    match report {
        Report::NotStarted { errno } => Err(RunError::NotStarted { errno }),
        Report::Ended { exit, leftovers } => {
            Ok(Finished { stdout: stdout.finish(), stderr: stderr.finish(), exit, leftovers })
        }
    }
}

fn by_itself(code: i32) -> Report {
    Report::Ended { exit: Exit::Code(code), leftovers: 0 }
}

/// A skill need not read its input: a closed pipe is no failure.
async fn write(mut stdin: pipe::Sender, input: &[&[u8]]) {
    for part in input {
        if stdin.write_all(part).await.is_err() {
            return;
        }
    }
}

/// What a process that serves many calls writes to stderr: it has no business to.
pub(crate) async fn drain_to_log(stderr: pipe::Receiver) {
    let mut tail = Written::tail(stderr);
    let _ = tail.read().await;
    let text = tail.finish();
    if !text.is_empty() {
        tracing::warn!(stderr = String::from_utf8_lossy(&text).trim_end(), "a host of skills wrote to stderr");
    }
}
