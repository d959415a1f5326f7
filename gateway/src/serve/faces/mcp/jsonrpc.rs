//! Parses JSON-RPC messages, and writes the envelopes of responses. Parses each message once, and leaves a call's
//! arguments as text.

use std::collections::HashMap;
use std::fmt::Write as _;

use openskill_proto::json::{self, Survey, depth};
use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_JSON_VALUES};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::call::blocking_pool::HEAVY_BYTES;
use crate::mcp::session::Capabilities;

/// The maximum length of a request id, in bytes. The response repeats it.
const MAX_ID: usize = 256;

/// The maximum number of messages in a batch.
const MAX_BATCH: usize = 64;

/// The depth of a call's arguments within its message, and the maximum number of values around them.
const FRAME: (usize, usize) = (4, 1000);

/// The error codes of JSON-RPC and MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Parse = -32700,
    InvalidRequest = -32600,
    MethodNotFound = -32601,
    InvalidParams = -32602,
    Internal = -32603,
    /// The gateway sheds load or drains, or no worker responds. The client may try again.
    Overloaded = -32000,
    Cancelled = -32800,
    /// Only used before revision 2026-07-28.
    NoResource = -32002,
    HeaderMismatch = -32020,
    MissingCapability = -32021,
    UnsupportedVersion = -32022,
}

/// The id of a request, as its JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id(Box<str>);

impl Id {
    pub(super) fn json(&self) -> &str {
        &self.0
    }

    /// Reads an id. None if the text is not a usable id: it is `null`, an array or an object, too long, or not
    /// portable.
    fn read(json: Box<RawValue>) -> Option<Self> {
        let text: Box<str> = json.into();
        (text.len() <= MAX_ID && is_echoed(&text)).then_some(Self(text))
    }
}

/// Whether a JSON text is a string or a number that can be sent back unchanged. Unpaired surrogates and numbers beyond
/// `f64` are valid JSON, but many clients can't parse a response that contains them.
pub(super) fn is_echoed(json: &str) -> bool {
    match json.as_bytes() {
        [b'"', inner @ ..] if !inner.contains(&b'\\') => true,
        [b'"', ..] => serde_json::from_str::<String>(json).is_ok(),
        [b'-' | b'0'..=b'9', ..] => serde_json::from_str::<f64>(json).is_ok_and(f64::is_finite),
        _ => false,
    }
}

/// The error object of a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RpcError {
    pub(super) code: Code,
    pub(super) message: String,
    /// Machine-readable details as JSON. May be empty.
    pub(super) data: String,
}

impl RpcError {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: String::new() }
    }

    pub(super) fn with_data(self, data: String) -> Self {
        Self { data, ..self }
    }
}

/// Builds the error for invalid parameters.
pub(super) fn invalid_params(message: impl Into<String>) -> RpcError {
    RpcError::new(Code::InvalidParams, message)
}

/// A message from a client.
#[derive(Debug)]
pub(super) enum Message {
    Request {
        id: Id,
        method: String,
        params: Box<Params>,
    },
    Notification {
        method: String,
        params: Box<Params>,
    },
    /// The response to a request of the server. Without a result, it is an error.
    Response {
        id: Id,
        result: Option<Box<RawValue>>,
    },
}

impl Message {
    /// The id of a request. None for other kinds of message.
    pub(super) fn request_id(&self) -> Option<&Id> {
        match self {
            Self::Request { id, .. } => Some(id),
            Self::Notification { .. } | Self::Response { .. } => None,
        }
    }
}

/// A message that can't be read, with its id if that is readable.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) id: Option<Id>,
    pub(super) fault: RpcError,
}

/// A request body: one message or a batch.
#[derive(Debug)]
pub(super) enum Body {
    One(Result<Message, Unreadable>),
    Batch(Vec<Result<Message, Unreadable>>),
}

/// The parameters of all MCP methods, as far as the gateway reads them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub(super) struct Params {
    #[serde(rename = "_meta")]
    pub(super) meta: Option<Meta>,
    pub(super) name: Option<String>,
    pub(super) uri: Option<String>,
    pub(super) arguments: Option<Box<RawValue>>,
    pub(super) cursor: Option<String>,
    pub(super) protocol_version: Option<String>,
    pub(super) capabilities: Option<Capabilities>,
    pub(super) request_id: Option<Box<RawValue>>,
    pub(super) level: Option<String>,
    pub(super) notifications: Option<Filter>,
    /// Answers to questions, by question key.
    pub(super) input_responses: Option<HashMap<String, Box<RawValue>>>,
    pub(super) request_state: Option<String>,
    pub(super) task_id: Option<String>,
    /// The prompt or template to complete, and its argument.
    #[serde(rename = "ref")]
    pub(super) reference: Option<Reference>,
    pub(super) argument: Option<Box<RawValue>>,
    pub(super) context: Option<Box<RawValue>>,
}

/// The `_meta` object of a request, as far as the gateway reads it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct Meta {
    #[serde(rename = "progressToken")]
    pub(super) progress_token: Option<Box<RawValue>>,
    pub(super) traceparent: Option<String>,
    pub(super) tracestate: Option<String>,
    #[serde(rename = "io.modelcontextprotocol/protocolVersion")]
    pub(super) version: Option<String>,
    #[serde(rename = "io.modelcontextprotocol/clientCapabilities")]
    pub(super) capabilities: Option<Capabilities>,
    #[serde(rename = "io.modelcontextprotocol/logLevel")]
    pub(super) log_level: Option<String>,
    #[serde(rename = "openskill.dev/session_id")]
    pub(super) session_id: Option<String>,
    #[serde(rename = "openskill.dev/idempotency_key")]
    pub(super) idempotency_key: Option<String>,
}

/// A reference to something with arguments: a prompt or a resource template.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct Reference {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uri: String,
}

/// The notifications that a client subscribes to.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub(super) struct Filter {
    pub(super) tools_list_changed: bool,
    pub(super) prompts_list_changed: bool,
    pub(super) resources_list_changed: bool,
    pub(super) resource_subscriptions: Vec<String>,
}

/// A message with `params` of type `P`.
#[derive(Deserialize)]
#[serde(expecting = "an object", bound = "P: Deserialize<'de>")]
struct RawMessage<P> {
    jsonrpc: String,
    #[serde(default, deserialize_with = "present")]
    id: Option<Box<RawValue>>,
    #[serde(default)]
    method: Option<String>,
    #[serde(default = "Option::default")]
    params: Option<P>,
    #[serde(default)]
    result: Option<Box<RawValue>>,
    #[serde(default)]
    error: Option<IgnoredAny>,
}

/// Deserializes a field that is present, even if it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Parses a request body.
pub(super) fn read(bytes: &[u8]) -> Body {
    if let Err(fault) = check_bounds(bytes) {
        return Body::One(Err(Unreadable { id: None, fault }));
    }
    if !bytes.trim_ascii_start().starts_with(b"[") {
        return Body::One(message(bytes));
    }
    match serde_json::from_slice::<Vec<Box<RawValue>>>(bytes) {
        Err(error) => Body::One(Err(Unreadable { id: None, fault: unparsable(&error) })),
        Ok(batch) if batch.is_empty() || batch.len() > MAX_BATCH => {
            let fault = RpcError::new(Code::InvalidRequest, format!("a batch must have 1 to {MAX_BATCH} messages"));
            Body::One(Err(Unreadable { id: None, fault }))
        }
        Ok(batch) => Body::Batch(batch.iter().map(|it| message(it.get().as_bytes())).collect()),
    }
}

fn check_bounds(bytes: &[u8]) -> Result<(), RpcError> {
    let most = MAX_JSON_VALUES + FRAME.1;
    if bytes.len() > HEAVY_BYTES && Survey::scan(bytes, most).values > most {
        let message = format!("the message has more than {MAX_JSON_VALUES} values");
        return Err(RpcError::new(Code::InvalidRequest, message));
    }
    if depth(bytes) > MAX_JSON_DEPTH + FRAME.0 {
        let message = format!("the message is nested too deeply: arguments have at most {MAX_JSON_DEPTH} levels");
        return Err(RpcError::new(Code::InvalidRequest, message));
    }
    Ok(())
}

fn unparsable(error: &serde_json::Error) -> RpcError {
    RpcError::new(Code::Parse, format!("the body is not JSON: {error}"))
}

fn message(bytes: &[u8]) -> Result<Message, Unreadable> {
    let raw = match json::read::<RawMessage<Box<Params>>>(bytes) {
        Ok(raw) => raw,
        Err(error) if !error.is_data() => return Err(Unreadable { id: None, fault: unparsable(&error) }),
        Err(error) => return Err(misshapen(bytes, &error)),
    };
    let RawMessage { jsonrpc, id, method, params, result, error } = raw;
    let (has_id, id) = (id.is_some(), id.and_then(Id::read));
    let invalid =
        |id: Option<Id>, message: String| Err(Unreadable { id, fault: RpcError::new(Code::InvalidRequest, message) });
    if jsonrpc != "2.0" {
        return invalid(id, "jsonrpc must be \"2.0\"".to_owned());
    }
    match (method, id) {
        (Some(method), Some(id)) => Ok(Message::Request { id, method, params: params.unwrap_or_default() }),
        (_, None) if has_id => {
            invalid(None, format!("id must be a readable string or number of at most {MAX_ID} bytes"))
        }
        (Some(method), None) => Ok(Message::Notification { method, params: params.unwrap_or_default() }),
        (None, Some(id)) if result.is_some() || error.is_some() => Ok(Message::Response { id, result }),
        (None, id) => invalid(id, "method is missing".to_owned()),
    }
}

/// Returns the error for a message with a wrong type: invalid parameters, if the rest can be read.
fn misshapen(bytes: &[u8], error: &serde_json::Error) -> Unreadable {
    #[derive(Deserialize)]
    struct OnlyId {
        id: Option<Box<RawValue>>,
    }
    let code = match json::read::<RawMessage<IgnoredAny>>(bytes) {
        Ok(_) => Code::InvalidParams,
        Err(_) => Code::InvalidRequest,
    };
    let id = json::read::<OnlyId>(bytes).ok().and_then(|it| it.id).and_then(Id::read);
    Unreadable { id, fault: RpcError::new(code, format!("the message can't be read: {error}")) }
}

/// Builds a response. `result` is a JSON object.
pub(super) fn result(id: &Id, result: &str) -> String {
    ["{\"jsonrpc\":\"2.0\",\"id\":", id.json(), ",\"result\":", result, "}"].concat()
}

/// Builds an error response. Without an id, the field is omitted: MCP does not allow `null` there.
pub(super) fn error(id: Option<&Id>, fault: &RpcError) -> String {
    let id = id.map_or_else(String::new, |id| format!("\"id\":{},", id.json()));
    let (number, message) = (fault.code as i32, string(&fault.message));
    let mut text = format!("{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":{number},\"message\":{message}");
    if !fault.data.is_empty() {
        // Writing to a string can't fail.
        let _ = write!(text, ",\"data\":{}", fault.data);
    }
    text.push_str("}}");
    text
}

/// Builds a notification. `params` is a JSON object.
pub(super) fn notification(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}")
}

/// Encodes a text as a JSON string.
pub(super) fn string(text: &str) -> String {
    // Serializing a string can't fail.
    serde_json::to_string(text).unwrap_or_default()
}

/// Returns the length of what [`string`] would return.
pub(super) fn escaped_bytes(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 0x08 | 0x0c => 2,
        0..0x20 => 6,
        _ => 1,
    });
    bytes.sum::<usize>() + 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_a_string_is_known_before_it_is_written() {
        let text: String = (0..0x180).filter_map(char::from_u32).collect();
        assert_eq!(escaped_bytes(&text), string(&text).len());
    }

    fn one(text: &str) -> Result<Message, Unreadable> {
        match read(text.as_bytes()) {
            Body::One(one) => one,
            Body::Batch(_) => panic!("{text} is a batch"),
        }
    }

    fn refused(text: &str) -> (Code, Option<String>) {
        let Unreadable { id, fault } = one(text).unwrap_err();
        (fault.code, id.map(|it| it.json().to_owned()))
    }

    #[test]
    fn a_request_keeps_its_id_and_its_arguments_as_written() {
        let text = r#"{"jsonrpc":"2.0","id":"a\u0062","method":"tools/call","params":{"name":"echo","arguments":{"n": 1.50}}}"#;
        let Message::Request { id, method, params } = one(text).unwrap() else { panic!() };
        assert_eq!((id.json(), method.as_str()), (r#""a\u0062""#, "tools/call"));
        assert_eq!(params.arguments.unwrap().get(), r#"{"n": 1.50}"#);
    }

    #[test]
    fn requests_notifications_and_responses_are_told_apart() {
        assert!(matches!(
            one(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Ok(Message::Notification { .. })
        ));
        assert!(matches!(one(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), Ok(Message::Response { .. })));
        assert!(matches!(one(r#"{"jsonrpc":"2.0","id":-1.5,"method":"ping"}"#), Ok(Message::Request { .. })));
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id() {
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(300));
        let seven = || Some("7".to_owned());
        for (text, expected) in [
            ("{", (Code::Parse, None)),
            ("", (Code::Parse, None)),
            ("5", (Code::InvalidRequest, None)),
            ("[]", (Code::InvalidRequest, None)),
            (r#"{"jsonrpc":"1.0","id":7,"method":"ping"}"#, (Code::InvalidRequest, seven())),
            (r#"{"jsonrpc":"2.0","id":7}"#, (Code::InvalidRequest, seven())),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, (Code::InvalidRequest, None)),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, (Code::InvalidRequest, None)),
            (r#"{"jsonrpc":"2.0","id":"\ud800","method":"ping"}"#, (Code::InvalidRequest, None)),
            (r#"{"jsonrpc":"2.0","id":1e999,"method":"ping"}"#, (Code::InvalidRequest, None)),
            (r#"{"jsonrpc":"2.0","id":7,"method":5}"#, (Code::InvalidRequest, seven())),
            (r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}"#, (Code::InvalidRequest, None)),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":5}}"#, (Code::InvalidParams, seven())),
            (r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":5}"#, (Code::InvalidParams, seven())),
            // Positional parameters have no keys that a proxy could read.
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":[null,"echo",null,{}]}"#,
                (Code::InvalidParams, seven()),
            ),
            (
                r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","_meta":["t"]}}"#,
                (Code::InvalidParams, seven()),
            ),
            (&long, (Code::InvalidRequest, None)),
        ] {
            assert_eq!(refused(text), expected, "{text}");
        }
    }

    #[test]
    fn deep_and_crowded_messages_are_refused_before_they_are_read() {
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        let crowded = format!("[{}]", vec!["1"; 200_000].join(","));
        for arguments in [deep, crowded] {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"arguments":{arguments}}}}}"#);
            assert_eq!(refused(&text).0, Code::InvalidRequest);
        }
    }

    #[test]
    fn a_batch_keeps_what_is_readable_in_it() {
        let Body::Batch(batch) = read(br#" [{"jsonrpc":"2.0","id":1,"method":"ping"}, 5]"#) else { panic!() };
        assert!(matches!(batch[..], [Ok(_), Err(_)]));
        let many = format!("[{}]", vec!["1"; 65].join(","));
        assert_eq!(refused(&many).0, Code::InvalidRequest);
    }

    #[test]
    fn answers_are_json() {
        let fault = RpcError::new(Code::InvalidParams, "a \"quote\"").with_data("{\"a\":1}".to_owned());
        let error: serde_json::Value = serde_json::from_str(&error(None, &fault)).unwrap();
        let expected = serde_json::json!({"code": -32602, "message": "a \"quote\"", "data": {"a": 1}});
        assert_eq!((error.get("id"), &error["error"]), (None, &expected));
    }
}
