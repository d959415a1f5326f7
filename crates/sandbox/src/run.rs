//! Runs one process from start to end: passes it the arguments, and reads limited output and events.

use std::time::Duration;

use futures_util::FutureExt as _;
use openskill_proto::limits::MAX_OUTPUT_BYTES;
use tokio::io::AsyncWriteExt as _;
use tokio::net::unix::pipe;
use tokio::sync::Notify;

use super::given_secrets::GivenSecrets;
use super::launch::{LaunchError, Launcher, Pipes};
use super::protocol::{Command, Exit, RunReport};
use super::streams::{ExitMessagePolicy, ProcessOutput, ReadStop, answer, forward};
use crate::event_channel::EventChannel;

/// How long the pipes may stay open after the process tree has ended.
const PIPES_GRACE: Duration = Duration::from_secs(1);

/// A process that has ended, and its output.
#[derive(Debug)]
pub struct Finished {
    /// Its whole stdout.
    pub stdout: Vec<u8>,
    /// The end of its stderr, at most `MAX_STDERR_BYTES`.
    pub stderr: Vec<u8>,
    /// How it exited: with a code or by a signal.
    pub exit: Exit,
    /// The number of processes that it left running, which were killed.
    pub leftovers: u32,
}

/// The reasons why a run has no output.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The program could not be started.
    #[error("could not be started: {}", std::io::Error::from_raw_os_error(*errno))]
    NotStarted {
        /// The errno of the failed start.
        errno: i32,
    },
    /// The process printed too much.
    #[error("printed more than {MAX_OUTPUT_BYTES} bytes")]
    OutputTooLarge,
    /// The process exceeded a limit, which this sentence explains.
    #[error("{0}")]
    Exceeded(String),
    /// The process tree has ended, but its pipes are still open.
    #[error("ended, but a process outside of it keeps its output open")]
    StillOpen,
    /// The supervisor was not started, or did not report.
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// Runs `command` with `input` on its stdin. Dropping the future kills the process tree. `guard` is dropped after
/// that.
///
/// # Errors
/// Fails if the process was not started, printed too much, or its end is unknown.
pub async fn run<G: Send + 'static>(
    launcher: &Launcher,
    command: &Command,
    input: &[&[u8]],
    events: &impl EventChannel,
    guard: G,
) -> Result<Finished, RunError> {
    let (mut running, pipes) = launcher.launch(command, guard)?;
    converse(pipes, input, events, ExitMessagePolicy::Ignored, async || running.report().await).await
}

/// Exchanges input, output and events with a process until it has ended. `report` returns how it ended. If
/// `exit_messages` allows this, an exit message ends the exchange earlier.
pub(super) async fn converse(
    mut pipes: Pipes,
    input: &[&[u8]],
    events: &impl EventChannel,
    exit_messages: ExitMessagePolicy,
    report: impl AsyncFnOnce() -> Result<RunReport, LaunchError>,
) -> Result<Finished, RunError> {
    let (mut stdout, mut stderr) = (ProcessOutput::all(pipes.stdout), ProcessOutput::tail(pipes.stderr));
    let (report, told) = {
        let (from, to) = pipes.events.split();
        let spoken = Notify::new();
        // Runs until all pipes are closed or an exit message arrives.
        let open = async {
            let written = write(pipes.stdin, input).map(Ok);
            let forwarded = forward(from, events, exit_messages, &spoken);
            let closed = async { tokio::try_join!(stdout.read(), stderr.read(), written, forwarded) };
            let closed = tokio::select! {
                closed = closed => closed,
                // The exchange does not wait until the answers are read.
                never = answer(to, events, &spoken) => match never {},
            };
            match closed {
                Ok(_) => Ok(None),
                Err(ReadStop::ExitMessage(report)) => Ok(Some(report)),
                Err(ReadStop::TooLarge) => Err(RunError::OutputTooLarge),
            }
        };
        let mut open = std::pin::pin!(open);
        let mut report = std::pin::pin!(report());
        tokio::select! {
            biased;
            told = &mut open => match told? {
                None => (report.await?, false),
                Some(report) => (report, true),
            },
            report = &mut report => {
                // The tree has ended and thereby closed its ends of the pipes, unless a process outside the tree
                // got one of them.
                match tokio::time::timeout(PIPES_GRACE, open).await.map_err(|_| RunError::StillOpen)?? {
                    None => (report?, false),
                    // The supervisor was lost after the exit message.
                    Some(announced) => (report.unwrap_or(announced), true),
                }
            }
        }
    };
    if told && (stdout.read_rest().is_err() || stderr.read_rest().is_err()) {
        return Err(RunError::OutputTooLarge);
    }
    match report {
        RunReport::NotStarted { errno } => Err(RunError::NotStarted { errno }),
        RunReport::Ended { exceeded: Some(reason), .. } => Err(RunError::Exceeded(reason)),
        RunReport::Ended { exit, leftovers, exceeded: None } => {
            Ok(Finished { stdout: stdout.finish(), stderr: stderr.finish(), exit, leftovers })
        }
    }
}

/// Writes the input. A closed pipe is not an error, because a skill need not read its input.
async fn write(mut stdin: pipe::Sender, input: &[&[u8]]) {
    for part in input {
        if stdin.write_all(part).await.is_err() {
            return;
        }
    }
}

/// Logs the stderr of a process that serves many calls, or only its length if the process was given secrets. The
/// process normally writes nothing.
pub async fn drain_to_log(stderr: pipe::Receiver, given_secrets: GivenSecrets) {
    let mut tail = ProcessOutput::tail(stderr);
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
