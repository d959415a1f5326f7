//! Splits streamed bodies: server-sent events, or one JSON value per line. Pure.
//!
//! <https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation>

/// The format of a streamed body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Division {
    /// `text/event-stream`.
    Events,
    /// `application/x-ndjson`.
    Lines,
}

/// One event or line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// The event's name; empty if it has none.
    pub(super) name: String,
    /// Its content.
    pub(super) data: String,
}

/// Splits a body that arrives in chunks. Buffers at most one incomplete message.
#[derive(Debug)]
pub(super) struct Divider {
    division: Division,
    /// The incomplete line.
    line: Vec<u8>,
    /// The last line ended with CR: a following LF belongs to it.
    after_cr: bool,
    first_line: bool,
    event: Message,
    has_data: bool,
}

impl Divider {
    pub(super) fn new(division: Division) -> Self {
        Self {
            division,
            line: Vec::new(),
            after_cr: false,
            first_line: true,
            event: Message::default(),
            has_data: false,
        }
    }

    /// The messages that these bytes complete.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Vec<Message> {
        let mut complete = Vec::new();
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_cr) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let is_end = |byte: &u8| *byte == b'\n' || (*byte == b'\r' && self.division == Division::Events);
            let Some(end) = bytes.iter().position(is_end) else {
                self.line.extend_from_slice(bytes);
                break;
            };
            self.line.extend_from_slice(&bytes[..end]);
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            complete.extend(self.end_line());
        }
        complete
    }

    /// The message that the end of the body completes. The standard discards it; here the body is known to be complete.
    pub(super) fn end(mut self) -> Option<Message> {
        let last = if self.line.is_empty() { None } else { self.end_line() };
        last.or_else(|| self.end_event())
    }

    fn end_line(&mut self) -> Option<Message> {
        let line = std::mem::take(&mut self.line);
        let line = String::from_utf8_lossy(&line);
        let line = if std::mem::take(&mut self.first_line) { line.trim_start_matches('\u{feff}') } else { &line };
        if self.division == Division::Lines {
            let data = line.trim();
            return (!data.is_empty()).then(|| Message { name: String::new(), data: data.to_owned() });
        }
        if line.is_empty() {
            return self.end_event();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "event" => value.clone_into(&mut self.event.name),
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
            }
            // A comment, or a field for clients that reconnect.
            _ => {}
        }
        None
    }

    fn end_event(&mut self) -> Option<Message> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divide(division: Division, body: &str, size: usize) -> Vec<(String, String)> {
        let mut divider = Divider::new(division);
        let mut messages: Vec<_> = body.as_bytes().chunks(size).flat_map(|it| divider.take(it)).collect();
        messages.extend(divider.end());
        messages.into_iter().map(|it| (it.name, it.data)).collect()
    }

    #[test]
    fn events_are_read_whatever_the_chunks() {
        let body = "\u{feff}: hello\r\n\r\ndata: é1\r\ndata:2\r\rid: 7\nevent: progress\ndata: {}\nretry: 5\n\nevent: x\n\ndata\n\ndata: end";
        let expected = [("", "é1\n2"), ("progress", "{}"), ("", ""), ("", "end")];
        let expected = expected.map(|it| (it.0.to_owned(), it.1.to_owned()));
        for size in 1..body.len() {
            assert_eq!(divide(Division::Events, body, size), expected, "{size}");
        }
    }

    #[test]
    fn lines_are_read_whatever_the_chunks() {
        let body = "{\"a\": 1}\n\n  2  \r\n\"x\\ry\"\nnull";
        for size in 1..body.len() {
            let data: Vec<_> = divide(Division::Lines, body, size).into_iter().map(|it| it.1).collect();
            assert_eq!(data, ["{\"a\": 1}", "2", "\"x\\ry\"", "null"], "{size}");
        }
    }
}
