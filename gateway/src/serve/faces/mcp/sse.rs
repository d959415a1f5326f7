//! Server-sent events as text.

use std::time::Duration;

use bytes::Bytes;

/// How long nothing is sent before a comment shows that the stream lives.
pub(super) const BEAT: Duration = Duration::from_secs(10);

/// A comment. Clients skip it.
pub(super) fn beat() -> Bytes {
    Bytes::from_static(b":\n\n")
}

/// A comment on a stream whose events have ids. Without an empty line: after an id, some clients take that for an event.
pub(super) fn beat_after_id() -> Bytes {
    Bytes::from_static(b":\n")
}

/// How soon a client that lost its connection takes the stream up again. Without an empty line: it is part of the event that
/// comes next.
pub(super) fn retry() -> Bytes {
    Bytes::from_static(b"retry: 1000\n")
}

/// A message as an event. JSON may have line breaks between its parts, an event's line must not.
pub(super) fn event(message: &str) -> Bytes {
    named_event("", message)
}

/// The same with an id.
pub(super) fn event_with_id(id: &str, message: &str) -> Bytes {
    named_event(&format!("id: {id}\n"), message)
}

/// An event with an id and nothing else: a client that loses its connection knows where to go on.
pub(super) fn only_id(id: &str) -> Bytes {
    format!("id: {id}\ndata:\n\n").into()
}

fn named_event(id: &str, message: &str) -> Bytes {
    let mut text = String::with_capacity(id.len() + message.len() + 24);
    text.push_str("event: message\n");
    text.push_str(id);
    text.push_str("data: ");
    text.extend(message.chars().map(|it| if matches!(it, '\n' | '\r') { ' ' } else { it }));
    text.push_str("\n\n");
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_is_in_it() {
        assert_eq!(event("{\n \"a\":\r\n1}"), "event: message\ndata: {  \"a\":  1}\n\n");
        assert_eq!(event_with_id("x-0", "{}"), "event: message\nid: x-0\ndata: {}\n\n");
    }
}
