//! A container's streams: writes the arguments, and reads output and events within limits.
//!
//! A container has no descriptor for events. So an event is a stderr line that begins with the mark in
//! `OPENSKILL_EVENTS_MARK`. The mark is random for each call, so that no other line begins with it by chance.

use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use futures_util::{Stream, StreamExt as _};
use openskill_proto::limits::{MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::events::EventSink;

/// How long the output may stay open after the process has exited.
const GRACE: Duration = Duration::from_secs(1);

/// The input and output streams of one process in a container.
pub(super) struct Streams {
    pub(super) output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    pub(super) input: Pin<Box<dyn AsyncWrite + Send>>,
}

/// The output of a process in a container.
#[derive(Debug, Default)]
pub(super) struct ProcessOutput {
    pub(super) stdout: Vec<u8>,
    /// The end of stderr, without event lines.
    pub(super) stderr: Vec<u8>,
}

/// The reasons why there is no output.
#[derive(Debug, thiserror::Error)]
pub(super) enum TalkError {
    #[error("printed more than {MAX_OUTPUT_BYTES} bytes")]
    OutputTooLarge,
    #[error("ended, but its output stays open")]
    StillOpen,
    #[error(transparent)]
    Engine(#[from] Error),
}

/// Writes `input`, and reads until the output is closed and `ended` completes.
pub(super) async fn talk(
    streams: Streams,
    input: &[&[u8]],
    mark: &str,
    events: &EventSink,
    ended: impl Future<Output = Result<(), Error>>,
) -> Result<ProcessOutput, TalkError> {
    let Streams { output, input: stdin } = streams;
    let listening = async {
        let mut writing = std::pin::pin!(write(stdin, input));
        let mut listening = std::pin::pin!(listen(output, mark, events));
        let mut written = false;
        loop {
            tokio::select! {
                said = &mut listening => return said,
                // The call continues when writing ends or fails: a skill need not read its input.
                () = &mut writing, if !written => written = true,
            }
        }
    };
    let (mut listening, mut ended) = (std::pin::pin!(listening), std::pin::pin!(ended));
    tokio::select! {
        biased;
        said = &mut listening => {
            let said = said?;
            ended.await?;
            Ok(said)
        }
        it = &mut ended => {
            it?;
            tokio::time::timeout(GRACE, listening).await.map_err(|_| TalkError::StillOpen)?
        }
    }
}

async fn write(mut stdin: Pin<Box<dyn AsyncWrite + Send>>, input: &[&[u8]]) {
    for part in input {
        if stdin.write_all(part).await.is_err() {
            return;
        }
    }
    // Tell the process that its input has ended. The other direction stays open.
    let _ = stdin.shutdown().await;
}

async fn listen(
    mut output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    mark: &str,
    events: &EventSink,
) -> Result<ProcessOutput, TalkError> {
    let mut stdout = Vec::new();
    let mut stderr = Stderr::new(mark);
    while let Some(frame) = output.next().await {
        match frame {
            Ok(LogOutput::StdOut { message }) => {
                stdout.extend_from_slice(&message);
                if stdout.len() > MAX_OUTPUT_BYTES {
                    return Err(TalkError::OutputTooLarge);
                }
            }
            Ok(LogOutput::StdErr { message }) => {
                for line in stderr.take(&message) {
                    match line {
                        Some(line) => events.line(&line).await,
                        None => events.drop_one(),
                    }
                }
            }
            Ok(_) => {}
            // A separate request to the engine reports how the process ended.
            Err(error) => {
                tracing::debug!(%error, "a container's output was cut off");
                break;
            }
        }
    }
    Ok(ProcessOutput { stdout, stderr: stderr.end() })
}

/// Separates events from other stderr output as it arrives.
struct Stderr<'a> {
    mark: &'a [u8],
    /// The kept part of the incomplete line.
    line: Vec<u8>,
    state: State,
    kept: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The line may still begin with the mark.
    Open,
    Event,
    /// The event is too long. The rest of it is skipped.
    Overlong,
    Text,
}

impl<'a> Stderr<'a> {
    fn new(mark: &'a str) -> Self {
        Self { mark: mark.as_bytes(), line: Vec::new(), state: State::Open, kept: Vec::new() }
    }

    /// Returns the events that these bytes complete. `None` represents an event that was too long.
    fn take(&mut self, bytes: &[u8]) -> Vec<Option<Vec<u8>>> {
        let mut events = Vec::new();
        for piece in bytes.split_inclusive(|it| *it == b'\n') {
            self.piece(piece, &mut events);
        }
        events
    }

    fn piece(&mut self, piece: &[u8], events: &mut Vec<Option<Vec<u8>>>) {
        match self.state {
            State::Open | State::Event => self.line.extend_from_slice(piece),
            State::Text => self.keep(piece),
            State::Overlong => {}
        }
        if self.state == State::Open {
            let common = self.line.len().min(self.mark.len());
            if self.line[..common] != self.mark[..common] {
                self.state = State::Text;
                let line = std::mem::take(&mut self.line);
                self.keep(&line);
            } else if common == self.mark.len() {
                self.state = State::Event;
            }
        }
        if self.state == State::Event && self.line.len() > MAX_EVENT_BYTES + self.mark.len() {
            self.state = State::Overlong;
            self.line.clear();
            events.push(None);
        }
        if piece.ends_with(b"\n") {
            if self.state == State::Event {
                events.push(Some(self.line.split_off(self.mark.len())));
            }
            self.line.clear();
            self.state = State::Open;
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.kept.extend_from_slice(bytes);
        if self.kept.len() > 2 * MAX_STDERR_BYTES {
            self.kept.drain(..self.kept.len() - MAX_STDERR_BYTES);
        }
    }

    /// Returns the end of stderr without events. Drops an incomplete event.
    fn end(mut self) -> Vec<u8> {
        if self.state == State::Open {
            let line = std::mem::take(&mut self.line);
            self.keep(&line);
        }
        self.kept.drain(..self.kept.len().saturating_sub(MAX_STDERR_BYTES));
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pieces: &[&[u8]]) -> (Vec<Option<String>>, String) {
        let mut stderr = Stderr::new("@mark ");
        let events: Vec<_> = pieces.iter().flat_map(|it| stderr.take(it)).collect();
        let text = |it: Vec<u8>| String::from_utf8(it).unwrap();
        (events.into_iter().map(|it| it.map(text)).collect(), text(stderr.end()))
    }

    #[test]
    fn a_marked_line_is_an_event_however_it_is_cut() {
        let expected = vec![Some("{\"partial\":1}\n".to_owned())];
        assert_eq!(read(&[b"@mark {\"partial\":1}\n"]), (expected.clone(), String::new()));
        assert_eq!(read(&[b"@ma", b"rk {\"par", b"tial\":1}\n"]), (expected.clone(), String::new()));
        assert_eq!(read(&[b"a\n@mark {\"partial\":1}\nb"]), (expected, "a\nb".to_owned()));
    }

    #[test]
    fn a_line_without_the_mark_at_its_beginning_is_text() {
        assert_eq!(read(&[b"x @mark {}\n", b"@mar\n", b"@ma"]), (vec![], "x @mark {}\n@mar\n@ma".to_owned()));
    }

    #[test]
    fn an_overlong_event_is_dropped_once_and_the_next_is_read() {
        let long = vec![b'x'; MAX_EVENT_BYTES];
        let (events, text) = read(&[b"@mark ", &long, &long, b"\n@mark {}\n"]);
        assert_eq!((events, text), (vec![None, Some("{}\n".to_owned())], String::new()));
    }

    #[test]
    fn only_the_last_of_stderr_is_kept() {
        let long = vec![b'x'; MAX_STDERR_BYTES];
        let (_, text) = read(&[&long, &long, &long, b"end"]);
        assert!(text.len() == MAX_STDERR_BYTES && text.ends_with("xend"));
    }
}
