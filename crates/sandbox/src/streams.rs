//! Reads limited output from a process: stdout, the end of stderr, and events.

use std::convert::Infallible;

use openskill_proto::limits::{MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{ReadHalf, WriteHalf, pipe};
use tokio::sync::Notify;

use super::protocol::{RunReport, parse_exit_message};
use crate::event_channel::EventChannel;

/// The size of one read, and the number of reads after an exit message. Together they cover a pipe's buffer.
const CHUNK: usize = 4096;
const REST: usize = 256;

/// Whether an exit message on the events descriptor ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExitMessagePolicy {
    /// Only the supervisor's report ends the run.
    Ignored,
    /// An exit message ends the run, because by then all of the script's output is in the pipes. A script that
    /// writes an exit message itself ends its own call, and is killed immediately afterwards.
    Believed,
}

/// The reasons why reading stopped.
#[derive(Debug)]
pub(super) enum ReadStop {
    /// The program sent its exit message, which says this.
    ExitMessage(RunReport),
    /// The program printed too much.
    TooLarge,
}

/// The output on one of a process's pipes.
pub(super) struct ProcessOutput {
    pipe: pipe::Receiver,
    bytes: Vec<u8>,
    /// Whether it keeps only the last `MAX_STDERR_BYTES`. Otherwise it keeps all output, or fails if it is too large.
    keeps_tail: bool,
}

impl ProcessOutput {
    /// Creates a reader for stdout, which keeps all output.
    pub(super) fn all(pipe: pipe::Receiver) -> Self {
        Self { pipe, bytes: Vec::new(), keeps_tail: false }
    }

    /// Creates a reader for stderr, which keeps the end and is never too large.
    pub(super) fn tail(pipe: pipe::Receiver) -> Self {
        Self { pipe, bytes: Vec::new(), keeps_tail: true }
    }

    /// Reads until the pipe is closed.
    pub(super) async fn read(&mut self) -> Result<(), ReadStop> {
        loop {
            self.bytes.reserve(CHUNK);
            match self.pipe.read_buf(&mut self.bytes).await {
                Ok(1..) => self.enforce_limit()?,
                Ok(0) | Err(_) => return Ok(()),
            }
        }
    }

    /// Reads the rest of the pipe without waiting. Bypasses the runtime, which may not have noticed it yet.
    pub(super) fn read_rest(&mut self) -> Result<(), ReadStop> {
        let mut chunk = [0; CHUNK];
        for _ in 0..REST {
            match rustix::io::read(&self.pipe, &mut chunk) {
                Ok(count @ 1..) => {
                    self.bytes.extend_from_slice(&chunk[..count]);
                    self.enforce_limit()?;
                }
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => break,
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.keeps_tail {
            self.cut();
        }
        self.bytes
    }

    fn enforce_limit(&mut self) -> Result<(), ReadStop> {
        match self.keeps_tail {
            false if self.bytes.len() > MAX_OUTPUT_BYTES => return Err(ReadStop::TooLarge),
            // Cutting after each read would move the whole buffer each time.
            true if self.bytes.len() > 2 * MAX_STDERR_BYTES => self.cut(),
            _ => {}
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.bytes.drain(..self.bytes.len().saturating_sub(MAX_STDERR_BYTES));
    }
}

/// Forwards each line from the events descriptor, until it is closed or an exit message ends the run. Skips an
/// overlong line as a whole. Notifies `spoken` at the first event.
pub(super) async fn forward(
    stream: ReadHalf<'_>,
    events: &impl EventChannel,
    exit_messages: ExitMessagePolicy,
    spoken: &Notify,
) -> Result<(), ReadStop> {
    let mut reader = BufReader::with_capacity(CHUNK, stream);
    let mut line = Vec::new();
    let mut overlong = false;
    loop {
        let room = (MAX_EVENT_BYTES - line.len()) as u64;
        match (&mut reader).take(room).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) if line.ends_with(b"\n") => {
                if exit_messages == ExitMessagePolicy::Believed
                    && let Some(report) = parse_exit_message(&line)
                {
                    return Err(ReadStop::ExitMessage(report));
                }
                if !overlong {
                    spoken.notify_one();
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
            // The stream ended without a newline. An incomplete line is not an event. The next read reports the
            // end.
            Ok(_) => {}
        }
    }
}

/// Writes answers to the events descriptor after the skill has sent its first event. A call without a question may
/// still be retried elsewhere, and the sink returns its answers only once. After the last answer, the skill reads
/// the end of the stream. Never completes.
pub(super) async fn answer(mut stream: WriteHalf<'_>, events: &impl EventChannel, spoken: &Notify) -> Infallible {
    spoken.notified().await;
    if let Some(mut answers) = events.answers() {
        while let Some(line) = answers.recv().await {
            if stream.write_all(&line).await.is_err() {
                break;
            }
        }
    }
    let _ = stream.shutdown().await;
    std::future::pending().await
}
