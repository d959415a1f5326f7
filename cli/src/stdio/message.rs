//! The parts of a message that HTTP headers repeat.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::Value;

/// The parts of a message that the bridge reads.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Message {
    /// The id as JSON text. `None` for a notification, a response or a batch.
    pub(super) id: Option<String>,
    pub(super) method: String,
    /// The protocol revision in the message. Revisions since 2026-07-28 have it.
    pub(super) version: Option<String>,
    /// The name of the tool or prompt, or the URI of the resource.
    pub(super) name: Option<String>,
    /// The arguments of a tool call. Set only for revisions since 2026-07-28.
    pub(super) arguments: Option<Value>,
    /// The id of the request that this message cancels, as JSON text.
    pub(super) cancels: Option<String>,
    /// Whether the message is a batch that contains a request.
    pub(super) is_batch: bool,
}

impl Message {
    /// Parses a message. Returns `None` if the text is not JSON.
    pub(super) fn read(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        if let Value::Array(all) = &value {
            let is_batch = all.iter().any(|it| it.get("id").is_some() && it.get("method").is_some());
            return Some(Self { is_batch, ..Self::default() });
        }
        let text = |value: &Value, pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let method = text(&value, "/method").unwrap_or_default();
        let name = if method == "resources/read" { "/params/uri" } else { "/params/name" };
        let is_request = !method.is_empty();
        let version = text(&value, "/params/_meta/io.modelcontextprotocol~1protocolVersion");
        let is_call = version.is_some() && method == "tools/call";
        Some(Self {
            arguments: value.pointer("/params/arguments").filter(|_| is_call).cloned(),
            id: value.get("id").filter(|_| is_request).map(ToString::to_string),
            version,
            name: text(&value, name),
            cancels: value
                .pointer("/params/requestId")
                .filter(|_| method == "notifications/cancelled")
                .map(ToString::to_string),
            method,
            is_batch: false,
        })
    }

    /// Whether the client expects a response.
    pub(super) fn is_request(&self) -> bool {
        self.id.is_some() || self.is_batch
    }

    /// Returns the name and the arguments of a tool call, for revisions since 2026-07-28.
    pub(super) fn call(&self) -> Option<(&str, &Value)> {
        Some((self.name.as_deref()?, self.arguments.as_ref()?))
    }

    /// Whether the response is a stream that stays open until the bridge ends.
    pub(super) fn is_subscription(&self) -> bool {
        self.method == "subscriptions/listen"
    }

    /// Adds the headers that repeat parts of the message, for revisions since 2026-07-28.
    pub(super) fn repeat(&self, headers: &mut HeaderMap) {
        let Some(version) = &self.version else { return };
        let named = matches!(self.method.as_str(), "tools/call" | "prompts/get" | "resources/read");
        let name = self.name.as_ref().filter(|_| named);
        let all = [("mcp-protocol-version", Some(version)), ("mcp-method", Some(&self.method)), ("mcp-name", name)];
        for (header, value) in all {
            if let Some(value) = value {
                headers.insert(HeaderName::from_static(header), encode_header(value));
            }
        }
    }
}

/// Encodes a text as a header value: unchanged, or as base64 if it contains characters that headers do not allow.
pub(super) fn encode_header(text: &str) -> HeaderValue {
    let is_plain = !text.is_empty() && text.trim() == text && text.bytes().all(|it| matches!(it, b' '..=b'~'));
    let plain = is_plain && !text.starts_with("=?base64?");
    let value = if plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) };
    // Base64 is visible ASCII.
    HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static("?"))
}

/// Builds the response to a request that failed in the bridge. `id` is JSON text.
pub(super) fn failure(id: Option<&str>, code: i32, message: &str) -> String {
    let id = id.map_or_else(String::new, |id| format!("\"id\":{id},"));
    let message = Value::from(message);
    format!("{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":{code},\"message\":{message}}}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_what_its_headers_repeat() {
        let text = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"ütf","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
        let (message, mut headers) = (Message::read(text).unwrap(), HeaderMap::new());
        message.repeat(&mut headers);
        assert_eq!(message.id.as_deref(), Some("\"a\""));
        assert_eq!(headers["mcp-method"], "tools/call");
        assert_eq!(headers["mcp-name"], "=?base64?w7x0Zg==?=");
        assert_eq!(headers["mcp-protocol-version"], "2026-07-28");
    }

    #[test]
    fn an_older_message_repeats_nothing() {
        let (message, mut headers) =
            (Message::read(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).unwrap(), HeaderMap::new());
        message.repeat(&mut headers);
        assert!(headers.is_empty() && message.is_request());
    }

    #[test]
    fn notifications_responses_and_batches_are_told_apart() {
        let read = |text| Message::read(text).unwrap();
        let cancelled = read(r#"{"method":"notifications/cancelled","params":{"requestId":7}}"#);
        assert!(!cancelled.is_request() && cancelled.cancels.as_deref() == Some("7"));
        assert!(!read(r#"{"id":1,"result":{}}"#).is_request());
        assert!(read(r#"[{"id":1,"method":"ping"}]"#).is_request() && !read(r#"[{"method":"a"}]"#).is_request());
        assert_eq!(Message::read("{"), None);
    }
}
