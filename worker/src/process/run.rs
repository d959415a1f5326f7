//! One whole run of a process: arguments in, output and events out, all of it bounded.

use std::time::Duration;

use futures_util::FutureExt as _;
use openskill_proto::limits::MAX_OUTPUT_BYTES;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

use super::given_secrets::GivenSecrets;
use super::launch::{LaunchError, Launcher, Pipes};
use super::protocol::{Command, Exit, Report};
use super::streams::{LastWord, Stop, Written, answer, forward};
use crate::events::EventSink;

/// How long the pipes may stay open after the process tree is gone.
const PIPES_GRACE: Duration = Duration::from_secs(1);

/// A process that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) stdout: Vec<u8>,
    /// The last of it, at most `MAX_STDERR_BYTES`.
    pub(crate) stderr: Vec<u8>,
    pub(crate) exit: Exit,
    pub(crate) leftovers: u32,
}

/// Why a run has no output.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error("could not be started: {}", std::io::Error::from_raw_os_error(*errno))]
    NotStarted { errno: i32 },
    #[error("printed more than {MAX_OUTPUT_BYTES} bytes")]
    OutputTooLarge,
    #[error("{0}")]
    Exceeded(String),
    #[error("ended, but a process outside of it holds its output open")]
    StillOpen,
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// Runs `command` with `input` on its stdin. Dropping the future kills the process tree; `guard` is dropped after that.
///
/// # Errors
/// It was not started, printed too much, or its end is not known.
pub(crate) async fn run<G: Send + 'static>(
    launcher: &Launcher,
    command: &Command,
    input: &[&[u8]],
    events: &EventSink,
    guard: G,
) -> Result<Finished, RunError> {
    let (mut running, pipes) = launcher.launch(command, guard)?;
    converse(pipes, input, events, LastWord::Ignored, async || running.report().await).await
}

/// Exchanges input, output and events with a process until it has ended: `report` says how, or `last_word` if it counts.
pub(super) async fn converse(
    mut pipes: Pipes,
    input: &[&[u8]],
    events: &EventSink,
    last_word: LastWord,
    report: impl AsyncFnOnce() -> Result<Report, LaunchError>,
) -> Result<Finished, RunError> {
    let (mut stdout, mut stderr) = (Written::whole(pipes.stdout), Written::tail(pipes.stderr));
    let (report, told) = {
        let (from, to) = pipes.events.split();
        let spoken = Notify::new();
        // Until all are closed, or a last word.
        let open = async {
            let written = write(pipes.stdin, input).map(Ok);
            let forwarded = forward(from, events, last_word, &spoken);
            let closed = async { tokio::try_join!(stdout.read(), stderr.read(), written, forwarded) };
            let closed = tokio::select! {
                closed = closed => closed,
                // Nothing waits for answers to be read.
                never = answer(to, events, &spoken) => match never {},
            };
            match closed {
                Ok(_) => Ok(None),
                Err(Stop::LastWord(word)) => Ok(Some(word)),
                Err(Stop::TooLarge) => Err(RunError::OutputTooLarge),
            }
        };
        let mut open = std::pin::pin!(open);
        let mut report = std::pin::pin!(report());
        tokio::select! {
            biased;
            told = &mut open => match told? {
                None => (report.await?, false),
                Some(word) => (word.report(), true),
            },
            report = &mut report => {
                // The tree is gone, and its ends of the pipes with it, but for one that was handed to somebody else.
                match tokio::time::timeout(PIPES_GRACE, open).await.map_err(|_| RunError::StillOpen)?? {
                    None => (report?, false),
                    // The supervisor was lost after the last word.
                    Some(word) => (report.unwrap_or_else(|_| word.report()), true),
                }
            }
        }
    };
    if told && (stdout.read_rest().is_err() || stderr.read_rest().is_err()) {
        return Err(RunError::OutputTooLarge);
    }
    match report {
        Report::NotStarted { errno } => Err(RunError::NotStarted { errno }),
        Report::Ended { exceeded: Some(reason), .. } => Err(RunError::Exceeded(reason)),
        Report::Ended { exit, leftovers, exceeded: None } => {
            Ok(Finished { stdout: stdout.finish(), stderr: stderr.finish(), exit, leftovers })
        }
    }
}

/// A skill need not read its input: a closed pipe is no failure.
async fn write(mut stdin: pipe::Sender, input: &[&[u8]]) {
    for part in input {
        if stdin.write_all(part).await.is_err() {
            return;
        }
    }
}

/// Logs what a process that serves many calls writes to stderr, or its length alone. It is not expected to write anything.
pub(crate) async fn drain_to_log(stderr: pipe::Receiver, given_secrets: GivenSecrets) {
    let mut tail = Written::tail(stderr);
    let _ = tail.read().await;
    let text = tail.finish();
    if !text.is_empty() {
        tracing::warn!(stderr_bytes = text.len(), "a process that serves many calls wrote to stderr");
    }
    if !text.is_empty() && !given_secrets.any() {
        tracing::debug!(
            stderr = String::from_utf8_lossy(&text).trim_end(),
            "stderr of a process that serves many calls"
        );
    }
}
