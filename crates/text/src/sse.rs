//! Splits a body into server-sent events, regardless of chunk boundaries. Does no I/O.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

use std::fmt;

/// A server-sent event with at least one field.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The event name. Empty if the event has none.
    pub name: String,
    /// The data lines, joined. The standard says to ignore events without data.
    pub data: Option<String>,
    /// The event id, from which a client can resume the stream.
    pub id: Option<String>,
    /// How long a client should wait before it reconnects, in milliseconds.
    pub retry_ms: Option<u64>,
    /// The non-standard field `error`, which older llama.cpp servers use for failures within a stream.
    pub error: Option<String>,
}

/// Why a body can't be split into events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// An event exceeds the decoder's size limit.
    TooLarge,
    /// A line is not valid UTF-8.
    NotUtf8,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "an event is too large",
            Self::NotUtf8 => "an event is not UTF-8",
        })
    }
}

impl std::error::Error for DecodeError {}

/// Splits a body that arrives in chunks. Buffers at most one incomplete event.
#[derive(Debug)]
pub struct SseDecoder {
    max_event_bytes: usize,
    /// The beginning of an incomplete line.
    line: Vec<u8>,
    /// Whether the previous line ended with CR, so that a following LF belongs to the same line break.
    after_cr: bool,
    is_past_first_line: bool,
    event: SseEvent,
    /// The total length of the current event's fields, in bytes.
    event_bytes: usize,
}

impl SseDecoder {
    /// Creates a decoder for events of at most `max_event_bytes` bytes.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            line: Vec::new(),
            after_cr: false,
            is_past_first_line: false,
            event: SseEvent::default(),
            event_bytes: 0,
        }
    }

    /// Adds bytes. Returns the events that they complete.
    ///
    /// # Errors
    /// The body is invalid: see [`DecodeError`]. The rest of it can't be split.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<Vec<SseEvent>, DecodeError> {
        let mut complete = Vec::new();
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let part = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + part.len() + self.event_bytes > self.max_event_bytes {
                return Err(DecodeError::TooLarge);
            }
            self.line.extend_from_slice(part);
            let Some(end) = end else { break };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            complete.extend(self.end_line()?);
        }
        Ok(complete)
    }

    /// Returns the event that the end of the body completes. The standard says to discard it because it may be
    /// incomplete, but some servers omit the last empty line.
    ///
    /// # Errors
    /// The last line is not UTF-8.
    pub fn end(mut self) -> Result<Option<SseEvent>, DecodeError> {
        let last = if self.line.is_empty() { None } else { self.end_line()? };
        Ok(last.or_else(|| self.end_event()))
    }

    fn end_line(&mut self) -> Result<Option<SseEvent>, DecodeError> {
        let line = std::mem::take(&mut self.line);
        let line = std::str::from_utf8(&line).map_err(|_| DecodeError::NotUtf8)?;
        let is_first = !std::mem::replace(&mut self.is_past_first_line, true);
        let line = line.strip_prefix('\u{feff}').filter(|_| is_first).unwrap_or(line);
        if line.is_empty() {
            return Ok(self.end_event());
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => add_line(&mut self.event.data, value),
            "id" if !value.contains('\0') => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry_ms = value.parse().ok(),
            "error" => add_line(&mut self.event.error, value),
            // This is a comment or an unknown field.
            _ => return Ok(None),
        }
        // The end of the line counts too, so that lines without a value are bounded.
        self.event_bytes += value.len() + 1;
        Ok(None)
    }

    /// Completes an event. Returns `None` if it has no fields, for example after a comment.
    fn end_event(&mut self) -> Option<SseEvent> {
        self.event_bytes = 0;
        let event = std::mem::take(&mut self.event);
        (event != SseEvent::default()).then_some(event)
    }
}

fn add_line(field: &mut Option<String>, line: &str) {
    match field {
        Some(text) => text.extend(["\n", line]),
        None => *field = Some(line.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(body: &[u8], size: usize) -> Vec<SseEvent> {
        let mut decoder = SseDecoder::new(1000);
        let mut found: Vec<_> = body.chunks(size).flat_map(|chunk| decoder.take(chunk).unwrap()).collect();
        found.extend(decoder.end().unwrap());
        found
    }

    #[test]
    fn events_are_found_whatever_the_chunks() {
        let body = "\u{feff}: hello\r\n\r\ndata: é🦀1\r\ndata:2\r\rid: 7\nevent: ping\ndata: {}\nretry: 5\nother: 1\n\nevent: x\n\ndata\n\n\
                    error: {\"code\":400}\n\ndata: end";
        let event = |name: &str, data: Option<&str>| SseEvent {
            name: name.to_owned(),
            data: data.map(str::to_owned),
            ..SseEvent::default()
        };
        let expected = [
            event("", Some("é🦀1\n2")),
            SseEvent { id: Some("7".to_owned()), retry_ms: Some(5), ..event("ping", Some("{}")) },
            event("x", None),
            event("", Some("")),
            SseEvent { error: Some("{\"code\":400}".to_owned()), ..event("", None) },
            event("", Some("end")),
        ];
        for size in 1..=body.len() {
            assert_eq!(split(body.as_bytes(), size), expected, "chunks of {size} bytes");
        }
    }

    #[test]
    fn a_line_that_is_not_utf8_is_an_error() {
        let mut decoder = SseDecoder::new(100);
        assert_eq!(decoder.take(b"data: \xff\n\n"), Err(DecodeError::NotUtf8));
        let mut decoder = SseDecoder::new(100);
        decoder.take("data: é".as_bytes().split_last().unwrap().1).unwrap();
        assert_eq!(decoder.end(), Err(DecodeError::NotUtf8), "a character cut in half");
    }

    #[test]
    fn an_event_has_a_bound_whether_in_one_line_or_in_many() {
        let chunk = [b'x'; 500];
        let mut decoder = SseDecoder::new(1000);
        decoder.take(&chunk).unwrap();
        decoder.take(&chunk).unwrap();
        assert_eq!(decoder.take(b"x"), Err(DecodeError::TooLarge));
        let mut decoder = SseDecoder::new(1000);
        let line = [b"data:".as_slice(), &chunk, b"\n"].concat();
        decoder.take(&line).unwrap();
        assert_eq!(decoder.take(&line), Err(DecodeError::TooLarge));
        let mut decoder = SseDecoder::new(1000);
        assert_eq!(decoder.take(&b"data:\n".repeat(1001)), Err(DecodeError::TooLarge), "lines without a value");
        let mut decoder = SseDecoder::new(1000);
        for _ in 0..10 {
            decoder.take(&[b": ".as_slice(), &chunk, b"\n"].concat()).unwrap();
            assert_eq!(decoder.take(&[&line, b"\n".as_slice()].concat()).unwrap().len(), 1);
        }
    }
}
