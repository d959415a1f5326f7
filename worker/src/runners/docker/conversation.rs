//! The streams of a container: arguments in, output and events out, all of it bounded.
//!
//! A container has no descriptor for events. So an event is a line of stderr that begins with the mark in
//! `OPENSKILL_EVENTS_MARK`, which is random for each call: nothing else begins like that by chance.

use std::pin::Pin;
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use futures_util::{Stream, StreamExt as _};
use openskill_proto::limits::{MAX_EVENT_BYTES, MAX_OUTPUT_BYTES, MAX_STDERR_BYTES};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

use crate::events::EventSink;

/// How long the output may stay open after its process has ended.
const GRACE: Duration = Duration::from_secs(1);

/// Both directions of one process in a container.
pub(super) struct Streams {
    pub(super) output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    pub(super) input: Pin<Box<dyn AsyncWrite + Send>>,
}

/// What the process wrote.
#[derive(Debug, Default)]
pub(super) struct Said {
    pub(super) stdout: Vec<u8>,
    /// The end of it, without the events.
    pub(super) stderr: Vec<u8>,
}

/// Why there is no output.
#[derive(Debug, thiserror::Error)]
pub(super) enum Fault {
    #[error("printed more than {MAX_OUTPUT_BYTES} bytes")]
    OutputTooLarge,
    #[error("ended, but its output stays open")]
    StillOpen,
    #[error(transparent)]
    Engine(#[from] Error),
}

/// Writes `input` and reads until both the output and `ended` are at their end.
pub(super) async fn talk(
    streams: Streams,
    input: &[&[u8]],
    mark: &str,
    events: &EventSink,
    ended: impl Future<Output = Result<(), Error>>,
) -> Result<Said, Fault> {
    let Streams { output, input: stdin } = streams;
    let listening = async {
        let mut writing = std::pin::pin!(write(stdin, input));
        let mut listening = std::pin::pin!(listen(output, mark, events));
        let mut written = false;
        loop {
            tokio::select! {
                said = &mut listening => return said,
                // A skill need not read its input, nor does the end of writing say anything.
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
            tokio::time::timeout(GRACE, listening).await.map_err(|_| Fault::StillOpen)?
        }
    }
}

async fn write(mut stdin: Pin<Box<dyn AsyncWrite + Send>>, input: &[&[u8]]) {
    for part in input {
        if stdin.write_all(part).await.is_err() {
            return;
        }
    }
    // The process reads an end of its input. The other direction stays open.
    let _ = stdin.shutdown().await;
}

async fn listen(
    mut output: Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>,
    mark: &str,
    events: &EventSink,
) -> Result<Said, Fault> {
    let mut stdout = Vec::new();
    let mut stderr = Stderr::new(mark);
    while let Some(frame) = output.next().await {
        match frame {
            Ok(LogOutput::StdOut { message }) => {
                stdout.extend_from_slice(&message);
                if stdout.len() > MAX_OUTPUT_BYTES {
                    return Err(Fault::OutputTooLarge);
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
            // The engine tells of its end by another request.
            Err(error) => {
                tracing::debug!(%error, "a container's output broke off");
                break;
            }
        }
    }
    Ok(Said { stdout, stderr: stderr.end() })
}

/// Tells events and the rest of stderr apart, as it comes.
struct Stderr<'a> {
    mark: &'a [u8],
    /// The line that is not finished yet, as far as it is kept.
    line: Vec<u8>,
    state: State,
    kept: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The line may still turn out to begin with the mark.
    Open,
    Event,
    /// An event that is too long: the rest of it is passed over.
    Overlong,
    Text,
}

impl<'a> Stderr<'a> {
    fn new(mark: &'a str) -> Self {
        Self { mark: mark.as_bytes(), line: Vec::new(), state: State::Open, kept: Vec::new() }
    }

    /// The events that these bytes complete; None stands for one that was too long.
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

    /// The end of what was no event. Half an event is none.
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
