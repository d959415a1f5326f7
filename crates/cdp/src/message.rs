//! What a message is: a request, the answer to one, or an event.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request. `session` names the page that it is for; none is the browser itself.
#[derive(Debug, Serialize)]
pub(crate) struct Request<'a> {
    pub(crate) id: u64,
    #[serde(rename = "sessionId", skip_serializing_if = "Option::is_none")]
    pub(crate) session: Option<&'a str>,
    pub(crate) method: &'a str,
    pub(crate) params: &'a Value,
}

/// Something that happened in the browser.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// Where: none is the browser itself.
    pub session: Option<String>,
    /// `Domain.event`.
    pub method: String,
    /// An object; `Null` if there is none.
    pub params: Value,
}

/// Why the browser refuses a request. The text is the browser's, and may quote a page.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{message} ({code})")]
pub struct Refused {
    /// As in JSON-RPC.
    #[serde(default)]
    pub code: i64,
    /// For people.
    #[serde(default)]
    pub message: String,
}

/// What came.
#[derive(Debug, PartialEq)]
pub(crate) enum Message {
    Answer(u64, Result<Value, Refused>),
    Event(Event),
}

#[derive(Deserialize)]
struct Raw {
    id: Option<u64>,
    #[serde(rename = "sessionId")]
    session: Option<String>,
    method: Option<String>,
    #[serde(default)]
    params: Value,
    #[serde(default)]
    result: Value,
    error: Option<Refused>,
}

/// Reads a message. None: it is neither an answer nor an event.
pub(crate) fn read(text: &[u8]) -> Option<Message> {
    let raw: Raw = serde_json::from_slice(text).ok()?;
    match (raw.id, raw.method) {
        (Some(id), _) => Some(Message::Answer(id, raw.error.map_or(Ok(raw.result), Err))),
        (None, Some(method)) => Some(Message::Event(Event { session: raw.session, method, params: raw.params })),
        (None, None) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_and_events_are_told_apart() {
        assert_eq!(read(br#"{"id":1,"result":{"a":1}}"#), Some(Message::Answer(1, Ok(json!({"a": 1})))));
        let refused = Refused { code: -32601, message: "'X' wasn't found".to_owned() };
        let text = br#"{"id":2,"sessionId":"s","error":{"code":-32601,"message":"'X' wasn't found","data":"more"}}"#;
        assert_eq!(read(text), Some(Message::Answer(2, Err(refused))));
        let event = Event { session: Some("s".to_owned()), method: "New.thing".to_owned(), params: json!({"x": [1]}) };
        assert_eq!(
            read(br#"{"method":"New.thing","params":{"x":[1]},"sessionId":"s","new":{}}"#),
            Some(Message::Event(event))
        );
    }

    #[test]
    fn what_is_neither_is_passed_over() {
        for text in [&b""[..], b"{}", b"[]", b"null", b"{\"id\":\"x\"}", b"\xff", br#"{"result":{}}"#] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
