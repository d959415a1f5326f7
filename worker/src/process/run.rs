//! One whole run of a process: arguments in, output and events out, all of it bounded.

use std::time::Duration;

use futures_util::FutureExt as _;
use openskill_proto::limits::{MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use tokio::io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe;

use super::launch::{LaunchError, Launcher, Pipes};
use super::wire::{Command, Exit, Report};
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

/// Whose word is taken for the end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Believed {
    /// Its supervisor's alone.
    Report,
    /// Its own as well: the last line on its events descriptor, [`END`] and its exit code, if all its pipes are closed then.
    /// A script that says it in its program's place ends its own call, and is itself ended a moment later.
    ItsOwn,
}

/// What a last word begins with (end of transmission): no event does.
const END: &[u8] = b"\x04";

/// Talks to a process until it has ended: `report` says how, once it has.
pub(super) async fn converse(
    pipes: Pipes,
    input: &[&[u8]],
    events: &EventSink,
    believed: Believed,
    report: impl AsyncFnOnce() -> Result<Report, LaunchError>,
) -> Result<Finished, RunError> {
    let Pipes { stdin, mut stdout, stderr, events: event_pipe } = pipes;
    let output = async {
        let mut bytes = Vec::new();
        let limit = MAX_OUTPUT_BYTES as u64 + 1;
        let _ = (&mut stdout).take(limit).read_to_end(&mut bytes).await;
        if bytes.len() > MAX_OUTPUT_BYTES { Err(RunError::OutputTooLarge) } else { Ok(bytes) }
    };
    let pipes = async {
        let rest = (tail(stderr).map(Ok), write(stdin, input).map(Ok), forward(event_pipe, events, believed).map(Ok));
        let (stdout, stderr, (), last_word) = tokio::try_join!(output, rest.0, rest.1, rest.2)?;
        Ok::<_, RunError>((stdout, stderr, last_word))
    };
    let mut pipes = std::pin::pin!(pipes);
    let mut report = std::pin::pin!(report());
    let (report, (stdout, stderr, _)) = tokio::select! {
        biased;
        ended = &mut pipes => {
            let ended = ended?;
            match ended.2 {
                Some(code) => (Report::Ended { exit: Exit::Code(code), leftovers: 0 }, ended),
                None => (report.await?, ended),
            }
        }
        report = &mut report => {
            // The tree is gone, and its ends of the pipes with it, but for one that was handed to somebody else.
            let rest = tokio::time::timeout(PIPES_GRACE, pipes).await;
            (report?, rest.map_err(|_| RunError::StillOpen)??)
        }
    };
    match report {
        Report::NotStarted { errno } => Err(RunError::NotStarted { errno }),
        Report::Ended { exit, leftovers } => Ok(Finished { stdout, stderr, exit, leftovers }),
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

/// The last bytes of a stream, at most `MAX_STDERR_BYTES`.
async fn tail(mut stream: impl AsyncRead + Unpin) -> Vec<u8> {
    let mut kept = Vec::new();
    let mut chunk = [0; 8192];
    while let Ok(count @ 1..) = stream.read(&mut chunk).await {
        kept.extend_from_slice(&chunk[..count]);
        if kept.len() > 2 * MAX_STDERR_BYTES {
            kept.drain(..kept.len() - MAX_STDERR_BYTES);
        }
    }
    kept.drain(..kept.len().saturating_sub(MAX_STDERR_BYTES));
    kept
}

/// What a process that serves many calls writes to stderr: it has no business to.
pub(crate) async fn drain_to_log(stderr: pipe::Receiver) {
    let text = tail(stderr).await;
    if !text.is_empty() {
        tracing::warn!(stderr = String::from_utf8_lossy(&text).trim_end(), "a host of skills wrote to stderr");
    }
}

/// Hands on each line of the events descriptor. A line that is too long is passed over, with the rest of it. The exit code, if
/// the last line was the program's last word, and that is believed.
async fn forward(stream: pipe::Receiver, events: &EventSink, believed: Believed) -> Option<i32> {
    let mut reader = BufReader::new(stream);
    let mut line = Vec::new();
    let mut overlong = false;
    let mut end = None;
    loop {
        let room = (MAX_EVENT_BYTES - line.len()) as u64;
        match (&mut reader).take(room).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return end,
            Ok(_) if line.ends_with(b"\n") => {
                end = if believed == Believed::ItsOwn { last_word(&line) } else { None };
                // An empty one stands before a last word, in case half a line did.
                let is_event = end.is_none() && (line.len() > 1 || believed == Believed::Report);
                if is_event && !overlong {
                    events.line(&line).await;
                }
                overlong = false;
                line.clear();
            }
            Ok(_) if line.len() >= MAX_EVENT_BYTES => {
                events.drop_one();
                overlong = true;
                line.clear();
            }
            // The end came before a newline: half a line is no event. The next read says so.
            Ok(_) => {}
        }
    }
}

fn last_word(line: &[u8]) -> Option<i32> {
    let code = line.strip_prefix(END)?.strip_suffix(b"\n")?;
    std::str::from_utf8(code).ok()?.parse().ok().filter(|code| (0..=255).contains(code))
}
