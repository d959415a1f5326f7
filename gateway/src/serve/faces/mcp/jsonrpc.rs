//! JSON-RPC messages: reading them, and the frame of an answer. A message is parsed once; the arguments of a call stay text.

use std::collections::HashMap;
use std::fmt::Write as _;

use openskill_proto::json::{self, Survey, depth};
use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_JSON_VALUES};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::capabilities::Capabilities;
use crate::call::aside::HEAVY_BYTES;

/// The longest id of a request, in bytes. It is repeated in the answer.
const MAX_ID: usize = 256;

/// How many messages a batch may have.
const MAX_BATCH: usize = 64;

/// How deep arguments stand in a message, and how many values there may be around them.
const FRAME: (usize, usize) = (4, 1000);

/// The errors of JSON-RPC and MCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Code {
    Parse,
    InvalidRequest,
    MethodNotFound,
    InvalidParams,
    Internal,
    /// The gateway sheds load or drains, or no worker answers: the client may try again.
    Overloaded,
    Cancelled,
    /// Before 2026-07-28.
    NoResource,
    HeaderMismatch,
    MissingCapability,
    UnsupportedVersion,
}

impl Code {
    pub(super) const fn number(self) -> i32 {
        match self {
            Self::Parse => -32700,
            Self::InvalidRequest => -32600,
            Self::MethodNotFound => -32601,
            Self::InvalidParams => -32602,
            Self::Internal => -32603,
            Self::Overloaded => -32000,
            Self::Cancelled => -32800,
            Self::NoResource => -32002,
            Self::HeaderMismatch => -32020,
            Self::MissingCapability => -32021,
            Self::UnsupportedVersion => -32022,
        }
    }
}

/// The id of a request, as its JSON text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Id(Box<str>);

impl Id {
    pub(super) fn json(&self) -> &str {
        &self.0
    }

    /// None if the text is no id: `null`, a structure, too long, or what others can't read.
    fn read(json: Box<RawValue>) -> Option<Self> {
        let text: Box<str> = json.into();
        (text.len() <= MAX_ID && is_echoed(&text)).then_some(Self(text))
    }
}

/// Whether a JSON text is a string or a number that may be sent back as it came. Half of a surrogate pair and numbers beyond
/// `f64` are JSON, but many clients can't read an answer that has one.
pub(super) fn is_echoed(json: &str) -> bool {
    match json.as_bytes() {
        [b'"', inner @ ..] if !inner.contains(&b'\\') => true,
        [b'"', ..] => serde_json::from_str::<String>(json).is_ok(),
        [b'-' | b'0'..=b'9', ..] => serde_json::from_str::<f64>(json).is_ok_and(f64::is_finite),
        _ => false,
    }
}

/// Why something is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: Code,
    pub(super) message: String,
    /// JSON for programs. Empty means none.
    pub(super) data: String,
}

impl Fault {
    pub(super) fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: String::new() }
    }

    pub(super) fn with_data(self, data: String) -> Self {
        Self { data, ..self }
    }
}

/// A message of a client.
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
    /// An answer to a request of the server. Without a result it is an error.
    Response {
        id: Id,
        result: Option<Box<RawValue>>,
    },
}

impl Message {
    /// The id of a request. None: it is not one.
    pub(super) fn request_id(&self) -> Option<&Id> {
        match self {
            Self::Request { id, .. } => Some(id),
            Self::Notification { .. } | Self::Response { .. } => None,
        }
    }
}

/// A message that can't be read, with its id as far as that can be.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) id: Option<Id>,
    pub(super) fault: Fault,
}

/// A body.
#[derive(Debug)]
pub(super) enum Body {
    One(Result<Message, Unreadable>),
    Batch(Vec<Result<Message, Unreadable>>),
}

/// What any method of MCP may have as parameters, as far as it is read here.
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
    /// Answers to questions, by their keys.
    pub(super) input_responses: Option<HashMap<String, Box<RawValue>>>,
    pub(super) request_state: Option<String>,
    pub(super) task_id: Option<String>,
    /// What is to be completed, and the argument of it.
    #[serde(rename = "ref")]
    pub(super) reference: Option<Reference>,
    pub(super) argument: Option<Box<RawValue>>,
    pub(super) context: Option<Box<RawValue>>,
}

/// What a request says of itself.
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

/// What has arguments: a prompt, or a template of resources.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "an object")]
pub(super) struct Reference {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) uri: String,
}

/// Which changes a client wants to hear of.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "an object")]
pub(super) struct Filter {
    pub(super) tools_list_changed: bool,
    pub(super) prompts_list_changed: bool,
    pub(super) resources_list_changed: bool,
    pub(super) resource_subscriptions: Vec<String>,
}

/// A message, of which `params` are read as `P`.
#[derive(Deserialize)]
#[serde(expecting = "an object", bound = "P: Deserialize<'de>")]
struct Raw<P> {
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

/// A field that is there, even if it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Reads a body.
pub(super) fn read(bytes: &[u8]) -> Body {
    if let Err(fault) = bounded(bytes) {
        return Body::One(Err(Unreadable { id: None, fault }));
    }
    if !bytes.trim_ascii_start().starts_with(b"[") {
        return Body::One(message(bytes));
    }
    match serde_json::from_slice::<Vec<Box<RawValue>>>(bytes) {
        Err(error) => Body::One(Err(Unreadable { id: None, fault: unparsable(&error) })),
        Ok(batch) if batch.is_empty() || batch.len() > MAX_BATCH => {
            let fault = Fault::new(Code::InvalidRequest, format!("a batch has 1 to {MAX_BATCH} messages"));
            Body::One(Err(Unreadable { id: None, fault }))
        }
        Ok(batch) => Body::Batch(batch.iter().map(|it| message(it.get().as_bytes())).collect()),
    }
}

fn bounded(bytes: &[u8]) -> Result<(), Fault> {
    let most = MAX_JSON_VALUES + FRAME.1;
    if bytes.len() > HEAVY_BYTES && Survey::of(bytes, most).values > most {
        let message = format!("the message has more than {MAX_JSON_VALUES} values");
        return Err(Fault::new(Code::InvalidRequest, message));
    }
    if depth(bytes) > MAX_JSON_DEPTH + FRAME.0 {
        let message = format!("the message nests too deep: arguments have at most {MAX_JSON_DEPTH} levels");
        return Err(Fault::new(Code::InvalidRequest, message));
    }
    Ok(())
}

fn unparsable(error: &serde_json::Error) -> Fault {
    Fault::new(Code::Parse, format!("the body is not JSON: {error}"))
}

fn message(bytes: &[u8]) -> Result<Message, Unreadable> {
    let raw = match json::read::<Raw<Box<Params>>>(bytes) {
        Ok(raw) => raw,
        Err(error) if !error.is_data() => return Err(Unreadable { id: None, fault: unparsable(&error) }),
        Err(error) => return Err(misshapen(bytes, &error)),
    };
    let Raw { jsonrpc, id, method, params, result, error } = raw;
    let (has_id, id) = (id.is_some(), id.and_then(Id::read));
    let invalid =
        |id: Option<Id>, message: String| Err(Unreadable { id, fault: Fault::new(Code::InvalidRequest, message) });
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

/// A message of which something has the wrong type: its parameters, if the rest can be read.
fn misshapen(bytes: &[u8], error: &serde_json::Error) -> Unreadable {
    #[derive(Deserialize)]
    struct OnlyId {
        id: Option<Box<RawValue>>,
    }
    let code = match json::read::<Raw<IgnoredAny>>(bytes) {
        Ok(_) => Code::InvalidParams,
        Err(_) => Code::InvalidRequest,
    };
    let id = json::read::<OnlyId>(bytes).ok().and_then(|it| it.id).and_then(Id::read);
    Unreadable { id, fault: Fault::new(code, format!("the message can't be read: {error}")) }
}

/// The answer with this result, which is a JSON object.
pub(super) fn result(id: &Id, result: &str) -> String {
    let id = id.json();
    let mut text = String::with_capacity(result.len() + id.len() + 40);
    for part in ["{\"jsonrpc\":\"2.0\",\"id\":", id, ",\"result\":", result, "}"] {
        text.push_str(part);
    }
    text
}

/// The answer with this error. Without an id, none is written: MCP has no `null` there.
pub(super) fn error(id: Option<&Id>, fault: &Fault) -> String {
    let id = id.map_or_else(String::new, |id| format!("\"id\":{},", id.json()));
    let (number, message) = (fault.code.number(), string(&fault.message));
    let mut text = format!("{{\"jsonrpc\":\"2.0\",{id}\"error\":{{\"code\":{number},\"message\":{message}");
    if !fault.data.is_empty() {
        // Writing to a string does not fail.
        let _ = write!(text, ",\"data\":{}", fault.data);
    }
    text.push_str("}}");
    text
}

/// A notification with these parameters, which are a JSON object.
pub(super) fn notification(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}")
}

/// A text as JSON.
pub(super) fn string(text: &str) -> String {
    // A string can always be written.
    serde_json::to_string(text).unwrap_or_default()
}

/// How many bytes [`string`] takes, without writing it.
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
            // Values by position have no keys that anybody on the way could look at.
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
        let fault = Fault::new(Code::InvalidParams, "a \"quote\"").with_data("{\"a\":1}".to_owned());
        let error: serde_json::Value = serde_json::from_str(&error(None, &fault)).unwrap();
        let expected = serde_json::json!({"code": -32602, "message": "a \"quote\"", "data": {"a": 1}});
        assert_eq!((error.get("id"), &error["error"]), (None, &expected));
    }
}
