//! A cell's output on one of its pipes. Streams it to the listener, and keeps a limited part for the result.

use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::{Fuse, FusedFuture as _};
use openskill_proto::limits::MAX_OUTPUT_BYTES;
use openskill_proto::v1::Partial;
use openskill_proto::v1::execute_event::Event;
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::events::EventSink;

/// The maximum part of each pipe's output that is kept, in bytes. More bytes are only counted.
const MAX_KEPT_BYTES: usize = 1024 * 1024;

/// The interval between two events. It keeps the longest cell below the limit on a call's events.
const PACE: Duration = Duration::from_millis(100);

/// The maximum length of one event's text, in bytes.
const MAX_EVENT_TEXT: usize = 16 * 1024;

/// The size of one read, and the number of reads after a cell ended. Together they cover a pipe's buffer.
const CHUNK: usize = 8192;
const REST: usize = 128;

/// The output on one pipe.
pub(super) struct Output {
    /// The name of the pipe.
    name: &'static str,
    kept: Vec<u8>,
    /// The number of kept bytes that were sent to the listener.
    told: usize,
    all: usize,
}

/// The printed text in the result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Printed {
    pub(crate) text: String,
    /// The number of bytes that were dropped.
    pub(crate) dropped: usize,
}

impl Output {
    pub(super) fn new(name: &'static str) -> Self {
        Self { name, kept: Vec::new(), told: 0, all: 0 }
    }

    /// Drains the pipe, whether or not the listener keeps up, so that the process never blocks on it. Notifies
    /// `flood` when the output limit is exceeded.
    pub(super) async fn follow(&mut self, pipe: &mut pipe::Receiver, events: &EventSink, flood: &Notify) -> Infallible {
        let (mut chunk, mut next, mut open) = ([0; CHUNK], Instant::now(), true);
        let mut telling = pin!(Fuse::terminated());
        loop {
            tokio::select! {
                read = pipe.read(&mut chunk), if open => match read {
                    Ok(count @ 1..) => self.take(&chunk[..count], flood),
                    // The pipe is closed, so nothing more arrives.
                    Ok(0) | Err(_) => open = false,
                },
                told = &mut telling => {
                    self.told += told;
                    if told <= MAX_EVENT_TEXT / 2 {
                        next = Instant::now() + PACE;
                    }
                }
                () = tokio::time::sleep_until(next), if telling.is_terminated() && self.told < self.kept.len() => {
                    match self.part() {
                        Some((event, bytes)) => telling.set(send_part(events, event, bytes).fuse()),
                        None => next = Instant::now() + PACE,
                    }
                }
            }
        }
    }

    /// Reads the rest of the pipe after a cell ended. Bypasses the runtime, which may not have noticed it yet.
    pub(super) fn take_rest(&mut self, pipe: &pipe::Receiver) {
        let (mut chunk, unheard) = ([0; CHUNK], Notify::new());
        for _ in 0..REST {
            match rustix::io::read(pipe, &mut chunk) {
                Ok(count @ 1..) => self.take(&chunk[..count], &unheard),
                Err(rustix::io::Errno::INTR) => {}
                Ok(0) | Err(_) => return,
            }
        }
    }

    /// Sends the rest of the output to the listener.
    pub(super) async fn tell(&mut self, events: &EventSink) {
        while let Some((event, bytes)) = self.part() {
            self.told += send_part(events, event, bytes).await;
        }
    }

    /// Returns the next event and the number of bytes in it. Returns `None` if everything was sent except an
    /// incomplete character.
    fn part(&self) -> Option<(Event, usize)> {
        let rest = &self.kept[self.told..];
        let whole = whole_characters(&rest[..rest.len().min(MAX_EVENT_TEXT)]);
        let text = String::from_utf8_lossy(&rest[..whole]);
        let data_json = json!({ self.name: text }).to_string();
        (whole > 0).then_some((Event::Partial(Partial { data_json }), whole))
    }

    pub(super) fn finish(self) -> Printed {
        let dropped = self.all - self.kept.len();
        Printed { text: String::from_utf8_lossy(&self.kept).into_owned(), dropped }
    }

    fn take(&mut self, bytes: &[u8], flood: &Notify) {
        let room = MAX_KEPT_BYTES - self.kept.len();
        self.kept.extend_from_slice(&bytes[..bytes.len().min(room)]);
        self.all = self.all.saturating_add(bytes.len());
        if self.all > MAX_OUTPUT_BYTES {
            flood.notify_one();
        }
    }
}

/// Sends an event, and returns the number of bytes in it.
async fn send_part(events: &EventSink, event: Event, bytes: usize) -> usize {
    events.send(event).await;
    bytes
}

/// Returns how many of these bytes precede an incomplete character at the end.
fn whole_characters(bytes: &[u8]) -> usize {
    // The bytes may not be UTF-8, but only a character at the very end can be incomplete.
    let tail = bytes.len().saturating_sub(4);
    let lead = bytes[tail..].iter().rposition(|it| *it >= 0xc0).map(|at| tail + at);
    let is_incomplete = |at: &usize| std::str::from_utf8(&bytes[*at..]).is_err_and(|it| it.error_len().is_none());
    lead.filter(is_incomplete).unwrap_or(bytes.len())
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn a_character_is_not_cut() {
        for (bytes, whole) in [
            (&b"abc"[..], 3),
            ("a\u{fc}".as_bytes(), 3),
            (&"a\u{fc}".as_bytes()[..2], 1),
            (&"\u{1f600}".as_bytes()[..3], 0),
            (b"a\xff\xfe", 3),
            (b"\xffa\xf0\x9f", 2),
        ] {
            assert_eq!(whole_characters(bytes), whole, "{bytes:?}");
        }
    }

    #[tokio::test]
    async fn a_listener_that_does_not_listen_stops_no_process() {
        const ALL: usize = 512 * 1024;
        let (sender, mut heard) = mpsc::channel(1);
        let (events, flood) = (EventSink::new(sender), Notify::new());
        let (mut end, mut pipe) = pipe::pipe().unwrap();
        let (mut output, text) = (Output::new("stdout"), vec![b'x'; ALL]);
        tokio::select! {
            written = end.write_all(&text) => written.unwrap(),
            never = output.follow(&mut pipe, &events, &flood) => match never {},
            () = tokio::time::sleep(Duration::from_secs(60)) => panic!("the process waits for the listener"),
        }
        output.take_rest(&pipe);
        // A late listener gets everything exactly once.
        let listening = tokio::spawn(async move {
            let mut text = String::new();
            while let Some(event) = heard.recv().await {
                let Event::Partial(Partial { data_json }) = event else { panic!("{event:?}") };
                let data: serde_json::Value = serde_json::from_str(&data_json).unwrap();
                text += data["stdout"].as_str().unwrap();
            }
            text.len()
        });
        output.tell(&events).await;
        drop(events);
        assert_eq!(listening.await.unwrap(), ALL);
        assert_eq!(output.finish().text.len(), ALL);
    }

    #[tokio::test]
    async fn what_is_printed_is_told_and_kept_within_bounds() {
        let (sender, mut heard) = mpsc::channel(256);
        let (events, flood) = (EventSink::new(sender), Notify::new());
        let mut output = Output::new("stdout");
        output.take("hello \u{fc}".as_bytes(), &flood);
        output.tell(&events).await;
        assert_eq!(
            heard.recv().await.unwrap(),
            Event::Partial(Partial { data_json: "{\"stdout\":\"hello \u{fc}\"}".to_owned() })
        );
        output.take(&vec![b'x'; MAX_OUTPUT_BYTES], &flood);
        // The notification is already there, so this returns at once.
        flood.notified().await;
        output.tell(&events).await;
        let printed = output.finish();
        assert_eq!((printed.text.len(), printed.dropped), (MAX_KEPT_BYTES, MAX_OUTPUT_BYTES + 8 - MAX_KEPT_BYTES));
    }
}
