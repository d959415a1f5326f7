//! Messages: requests, responses and events.

use openskill_sandbox::untrusted_json;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// A request. `session` identifies the target page. `None` means the browser itself.
#[derive(Debug, Serialize)]
pub(crate) struct Request<'a> {
    pub(crate) id: u64,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) params: &'a Value,
}

/// An event in the browser.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Event {
    /// The page's session. `None` means the browser itself.
    pub(crate) session: Option<String>,
    /// The name of the event: `Domain.event`.
    pub(crate) method: String,
    /// The parameters: an object, or `Null` if the event has no parameters.
    pub(crate) params: Value,
}

/// The browser's error response to a request. The text comes from the browser and may quote a page.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub(crate) struct ProtocolError {
    /// The error code, as in JSON-RPC.
    #[serde(default)]
    pub(crate) code: i64,
    /// The error message for people.
    #[serde(default)]
    pub(crate) message: String,
}

/// A parsed message from the browser.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    Answer(u64, Result<Value, ProtocolError>),
    /// An unusable response: it is too long, nested too deep, or has too many values.
    Unreadable(u64),
    Event(Event),
}

#[derive(Deserialize)]
struct RawMessage<'a> {
    id: Option<u64>,
    #[serde(rename = "sessionId")]
    session: Option<String>,
    method: Option<String>,
    #[serde(borrow)]
    params: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<ProtocolError>,
}

/// Parses a part of a message. An absent part is `Null`. Returns `None` for a part that is nested too deep or has
/// too many values.
fn value(part: Option<&RawValue>) -> Option<Value> {
    let Some(text) = part.map(RawValue::get) else { return Some(Value::Null) };
    untrusted_json::parse(text.as_bytes()).ok()
}

/// The beginning of the error that a browser sends if a response is nested too deep to be encoded as JSON.
const UNWRITTEN: &str = "Failed to convert response to JSON";

/// Parses a message. Returns `None` if it is neither a response nor an event, or if it is an event that cannot be
/// parsed.
pub(crate) fn read(text: &[u8]) -> Option<Message> {
    let raw: RawMessage<'_> = serde_json::from_slice(text).ok()?;
    match (raw.id, raw.error, raw.method) {
        (Some(id), Some(refused), _) if refused.message.starts_with(UNWRITTEN) => Some(Message::Unreadable(id)),
        (Some(id), Some(refused), _) => Some(Message::Answer(id, Err(refused))),
        (Some(id), None, _) => {
            Some(value(raw.result).map_or(Message::Unreadable(id), |result| Message::Answer(id, Ok(result))))
        }
        (None, _, Some(method)) => {
            Some(Message::Event(Event { session: raw.session, method, params: value(raw.params)? }))
        }
        (None, _, None) => None,
    }
}

/// Classifies a too long message by its beginning. Returns `None` if it is not a response, or its id is not in the
/// beginning.
pub(crate) fn read_beginning(text: &[u8]) -> Option<Message> {
    let digits = text.strip_prefix(b"{\"id\":")?;
    let end = digits.iter().position(|it| !it.is_ascii_digit())?;
    let id = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    Some(Message::Unreadable(id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_and_events_are_told_apart() {
        assert_eq!(read(br#"{"id":1,"result":{"a":1}}"#), Some(Message::Answer(1, Ok(json!({"a": 1})))));
        let refused = ProtocolError { code: -32601, message: "'X' wasn't found".to_owned() };
        let text = br#"{"id":2,"sessionId":"s","error":{"code":-32601,"message":"'X' wasn't found","data":"more"}}"#;
        assert_eq!(read(text), Some(Message::Answer(2, Err(refused))));
        let event = Event { session: Some("s".to_owned()), method: "New.thing".to_owned(), params: json!({"x": [1]}) };
        assert_eq!(
            read(br#"{"method":"New.thing","params":{"x":[1]},"sessionId":"s","new":{}}"#),
            Some(Message::Event(event))
        );
    }

    #[test]
    fn an_answer_that_is_too_deep_or_too_long_is_known_by_its_call() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        let text = format!(r#"{{"id":7,"result":{{"deep":{}}}}}"#, nested(50_000));
        assert_eq!(read(text.as_bytes()), Some(Message::Unreadable(7)));
        let unwritten = br#"{"id":8,"error":{"code":-32000,"message":"Failed to convert response to JSON: CBOR: stack limit exceeded"}}"#;
        assert_eq!(read(unwritten), Some(Message::Unreadable(8)));
        assert_eq!(read(format!(r#"{{"method":"A.a","params":{}}}"#, nested(50_000)).as_bytes()), None);
        assert!(matches!(
            read(format!(r#"{{"id":7,"result":{}}}"#, nested(100)).as_bytes()),
            Some(Message::Answer(7, Ok(_)))
        ));
        assert_eq!(read_beginning(br#"{"id":12,"result":{"data":"iVB"#), Some(Message::Unreadable(12)));
        for other in [&b""[..], b"{", br#"{"id":12"#, br#"{"id":"12","#, br#"{"method":"A.a","params":"#] {
            assert_eq!(read_beginning(other), None, "{other:?}");
        }
    }

    #[test]
    fn what_is_neither_is_passed_over() {
        for text in [&b""[..], b"{}", b"[]", b"null", b"{\"id\":\"x\"}", b"\xff", br#"{"result":{}}"#] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
