//! What a process writes: stdout, the tail of stderr, its events. All of it bounded.

use std::convert::Infallible;

use openskill_proto::limits::{MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::{ReadHalf, WriteHalf, pipe};
use tokio::sync::Notify;

use super::protocol::{Word, last_word};
use crate::events::EventSink;

/// How much is read at a time, and how often after a last word: as much as a pipe can hold.
const CHUNK: usize = 4096;
const REST: usize = 256;

/// Whether a last word on the events descriptor ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LastWord {
    /// Only the supervisor's report does.
    Ignored,
    /// It does: all that the script printed is in its pipes by then. A script that writes a last word itself ends its own
    /// call, and is killed a moment later.
    Believed,
}

/// Why nothing more is read.
#[derive(Debug)]
pub(super) enum Stop {
    /// The program said its last word.
    LastWord(Word),
    /// It printed too much.
    TooLarge,
}

/// What was read from one pipe of a process.
pub(super) struct Written {
    pipe: pipe::Receiver,
    bytes: Vec<u8>,
    kept: Kept,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    /// All of it, or it is too large.
    Whole,
    /// The last bytes, at most `MAX_STDERR_BYTES`.
    Tail,
}

impl Written {
    /// All of it: stdout.
    pub(super) fn whole(pipe: pipe::Receiver) -> Self {
        Self { pipe, bytes: Vec::new(), kept: Kept::Whole }
    }

    /// The last of it: stderr. Never too large.
    pub(super) fn tail(pipe: pipe::Receiver) -> Self {
        Self { pipe, bytes: Vec::new(), kept: Kept::Tail }
    }

    /// Reads until it is closed.
    pub(super) async fn read(&mut self) -> Result<(), Stop> {
        loop {
            self.bytes.reserve(CHUNK);
            match self.pipe.read_buf(&mut self.bytes).await {
                Ok(1..) => self.bound()?,
                Ok(0) | Err(_) => return Ok(()),
            }
        }
    }

    /// Reads what is there, without waiting. Not through the runtime, which may not know yet that there is something to read.
    pub(super) fn read_rest(&mut self) -> Result<(), Stop> {
        let mut chunk = [0; CHUNK];
        for _ in 0..REST {
            match rustix::io::read(&self.pipe, &mut chunk) {
                Ok(count @ 1..) => {
                    self.bytes.extend_from_slice(&chunk[..count]);
                    self.bound()?;
                }
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => break,
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        if self.kept == Kept::Tail {
            self.cut();
        }
        self.bytes
    }

    fn bound(&mut self) -> Result<(), Stop> {
        match self.kept {
            Kept::Whole if self.bytes.len() > MAX_OUTPUT_BYTES => return Err(Stop::TooLarge),
            // Not at each read, which would move all of it each time.
            Kept::Tail if self.bytes.len() > 2 * MAX_STDERR_BYTES => self.cut(),
            _ => {}
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.bytes.drain(..self.bytes.len().saturating_sub(MAX_STDERR_BYTES));
    }
}

/// Forwards each line of the events descriptor, until it is closed or a last word ends the run. A line that is too
/// long is skipped, with the rest of it. The first event is announced on `spoken`.
pub(super) async fn forward(
    stream: ReadHalf<'_>,
    events: &EventSink,
    words: LastWord,
    spoken: &Notify,
) -> Result<(), Stop> {
    let mut reader = BufReader::with_capacity(CHUNK, stream);
    let mut line = Vec::new();
    let mut overlong = false;
    loop {
        let room = (MAX_EVENT_BYTES - line.len()) as u64;
        match (&mut reader).take(room).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return Ok(()),
            Ok(_) if line.ends_with(b"\n") => {
                if words == LastWord::Believed
                    && let Some(word) = last_word(&line)
                {
                    return Err(Stop::LastWord(word));
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
            // The end came before a newline: half a line is no event. The next read says so.
            Ok(_) => {}
        }
    }
}

/// Writes answers to the events descriptor, from the skill's first event on: a call that asked nothing may still be retried
/// elsewhere, and the sink gives its answers out only once. When there are none, or no more, the skill reads the end of
/// the stream. Never completes.
pub(super) async fn answer(mut stream: WriteHalf<'_>, events: &EventSink, spoken: &Notify) -> Infallible {
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
