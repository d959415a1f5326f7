//! Splits streamed bodies into server-sent events or JSON lines. Pure.

use openskill_proto::limits::MAX_OUTPUT_BYTES;
use openskill_sandbox::untrusted_json::without_byte_order_mark;
use openskill_text::sse::{DecodeError, SseDecoder, SseEvent};

/// An event or a line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct StreamMessage {
    /// The event's name, which may be empty. `None` for a line.
    pub(super) event: Option<String>,
    /// The event's data, or the line.
    pub(super) data: String,
}

impl StreamMessage {
    /// Returns `None` if the event has no data.
    fn from_event(event: SseEvent) -> Option<Self> {
        Some(Self { event: Some(event.name), data: event.data? })
    }

    /// Returns `None` if the line is empty.
    fn from_line(line: &[u8]) -> Option<Self> {
        let line = String::from_utf8_lossy(without_byte_order_mark(line));
        let data = line.trim();
        (!data.is_empty()).then(|| Self { event: None, data: data.to_owned() })
    }
}

/// Splits a body that arrives in chunks. Buffers at most one incomplete message.
#[derive(Debug)]
pub(super) enum Divider {
    /// `text/event-stream`.
    Events(SseDecoder),
    /// `application/x-ndjson`. Contains the incomplete line.
    Lines(Vec<u8>),
}

impl Divider {
    pub(super) fn events() -> Self {
        Self::Events(SseDecoder::new(MAX_OUTPUT_BYTES))
    }

    /// Adds bytes, and returns the messages that they complete.
    ///
    /// # Errors
    /// Fails if the rest of the body can't be split.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<Vec<StreamMessage>, DecodeError> {
        match self {
            Self::Events(decoder) => {
                Ok(decoder.take(bytes)?.into_iter().filter_map(StreamMessage::from_event).collect())
            }
            Self::Lines(line) => {
                let mut complete = Vec::new();
                for part in bytes.split_inclusive(|it| *it == b'\n') {
                    line.extend_from_slice(part);
                    if part.ends_with(b"\n") {
                        complete.extend(StreamMessage::from_line(&std::mem::take(line)));
                    }
                }
                Ok(complete)
            }
        }
    }

    /// Returns the message that the end of the body completes. The standard discards it, but here the body is
    /// known to be complete.
    ///
    /// # Errors
    /// Fails if the last line is not text.
    pub(super) fn end(self) -> Result<Option<StreamMessage>, DecodeError> {
        match self {
            Self::Events(decoder) => Ok(decoder.end()?.and_then(StreamMessage::from_event)),
            Self::Lines(line) => Ok(StreamMessage::from_line(&line)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(mut divider: Divider, body: &str, size: usize) -> Vec<(Option<String>, String)> {
        let mut messages: Vec<_> = body.as_bytes().chunks(size).flat_map(|it| divider.take(it).unwrap()).collect();
        messages.extend(divider.end().unwrap());
        messages.into_iter().map(|it| (it.event, it.data)).collect()
    }

    #[test]
    fn events_without_data_are_no_messages() {
        let body = "event: progress\ndata: {}\n\nevent: x\n\nerror: y\n\ndata\n\ndata: end";
        let expected = [("progress", "{}"), ("", ""), ("", "end")].map(|it| (Some(it.0.to_owned()), it.1.to_owned()));
        assert_eq!(divide(Divider::events(), body, 7), expected);
    }

    #[test]
    fn lines_are_read_whatever_the_chunks() {
        let body = "{\"a\": 1}\n\n  2  \r\n\"x\\ry\"\nnull";
        for size in 1..body.len() {
            let data: Vec<_> = divide(Divider::Lines(Vec::new()), body, size).into_iter().map(|it| it.1).collect();
            assert_eq!(data, ["{\"a\": 1}", "2", "\"x\\ry\"", "null"], "{size}");
        }
    }
}
