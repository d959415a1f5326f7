//! Parses and writes a connection's messages.
//!
//! The protocol library parses JSON into values, which changes numbers of more than 64 bits. So a call's arguments
//! stay text as [`RawArguments`], and a tool's result stays text as a string.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bytes::Bytes;
use openskill_proto::limits::MAX_JSON_VALUES;
use openskill_sandbox::untrusted_json::{Unreadable, parse, without_byte_order_mark};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, CustomResult, ErrorCode, ErrorData, JsonRpcMessage, NumberOrString, RequestId,
    ServerJsonRpcMessage, ServerResult,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::{RawValue, to_raw_value};

use super::errors::TOO_LARGE;
use super::tool_result::ToolResult;

/// The maximum length of a message, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// A text that is not a message.
pub(super) struct Unread {
    /// The properties that could be recovered from it.
    pub(super) remains: Remains,
    reason: Unreadable,
}

/// A call's arguments: a JSON object without line breaks, attached to the request as an extension.
#[derive(Debug, Clone)]
pub(super) struct RawArguments(Bytes);

impl RawArguments {
    pub(super) fn new(json: &Bytes) -> Self {
        // JSON strings contain no raw line breaks, and a message over stdio must not contain any.
        let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        if !json.iter().any(is_break) {
            return Self(json.clone());
        }
        Self(json.iter().map(|byte| if is_break(byte) { b' ' } else { *byte }).collect())
    }
}

/// The fields that identify a message's kind. Skips most values.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "jsonrpc")]
    _version: &'a str,
    id: Option<RequestId>,
    method: Option<IgnoredAny>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
    error: Option<IgnoredAny>,
}

impl Envelope<'_> {
    /// Returns the answer to `tools/call`, with its result as text.
    fn tool_result(&self) -> Option<ServerJsonRpcMessage> {
        let json = self.result.filter(|it| self.method.is_none() && ToolResult::is_one(it.get()))?;
        let result = ServerResult::CustomResult(CustomResult(json.get().into()));
        Some(ServerJsonRpcMessage::response(result, self.id.clone()?))
    }
}

/// Parses one message.
///
/// # Errors
/// Fails if the text has too many values or is not a message.
pub(super) fn read(text: &[u8]) -> Result<ServerJsonRpcMessage, Unread> {
    let text = &*without_lone_surrogates(without_byte_order_mark(text));
    let unread = |reason| Unread { remains: Remains::parse(text), reason };
    let tool_result = match parse::<Envelope<'_>>(text) {
        Err(reason @ Unreadable::TooManyValues) => return Err(unread(reason)),
        envelope => envelope.ok().and_then(|it| it.tool_result()),
    };
    match tool_result {
        Some(answer) => Ok(answer),
        None => serde_json::from_slice(text).map_err(|error| unread(error.into())),
    }
}

/// Converts an event's text to a form that the protocol library can parse. Returns `None` if it is not a message.
/// `asked`: the only request that it can belong to.
pub(super) fn normalize_event(text: &str, asked: Option<RequestId>) -> Option<String> {
    let text = without_lone_surrogates(text.as_bytes());
    let message = match parse::<Envelope<'_>>(&text) {
        Ok(envelope) => {
            let is_error = envelope.error.is_some() && envelope.method.is_none();
            let asked = asked.filter(|asked| is_error && !is_id_of(asked, envelope.id.as_ref()));
            match (envelope.tool_result(), asked) {
                (Some(answer), _) => answer,
                (None, Some(asked)) => match serde_json::from_slice::<ServerJsonRpcMessage>(&text).ok()? {
                    JsonRpcMessage::Error(it) => ServerJsonRpcMessage::error(it.error, Some(asked)),
                    other => other,
                },
                (None, None) => return String::from_utf8(text.into_owned()).ok(),
            }
        }
        Err(reason) => {
            let remains = Remains::parse(&text);
            let is_answer = match reason {
                Unreadable::TooManyValues => !remains.has_method,
                Unreadable::Invalid(_) => remains.is_answer(),
            };
            let answered = asked.or(remains.id.map(NumberOrString::Number)).filter(|_| is_answer)?;
            Unread { remains, reason }.into_answer(answered)
        }
    };
    serde_json::to_string(&message).ok()
}

/// Converts an id to the number that our request used. Some servers return it as a string. Returns `None` if it is
/// not one of ours.
pub(super) fn own_id(id: &RequestId) -> Option<RequestId> {
    match id {
        NumberOrString::Number(_) => Some(id.clone()),
        NumberOrString::String(text) => {
            let number = text.parse::<i64>().ok().filter(|it| it.to_string() == **text);
            number.map(NumberOrString::Number)
        }
    }
}

/// Returns whether an answer has this request's id. An error may have no id, or an invented one, if the server
/// could not tell which request it refused.
pub(super) fn is_id_of(asked: &RequestId, id: Option<&RequestId>) -> bool {
    id.and_then(own_id).as_ref() == Some(asked)
}

/// Serializes one message, with the arguments of a call unchanged.
///
/// # Errors
/// Fails if a value can't be written as JSON.
pub(super) fn write(mut message: ClientJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    let Some(arguments) = take_arguments(&mut message) else { return serde_json::to_vec(&message) };
    let text = serde_json::to_vec(&message)?;
    let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_slice(&text)?;
    let params = fields.get("params").map_or("{}", |it| it.get());
    let mut params: BTreeMap<&str, &RawValue> = serde_json::from_str(params)?;
    params.insert("arguments", serde_json::from_slice(&arguments.0)?);
    let params = to_raw_value(&params)?;
    fields.insert("params", &params);
    serde_json::to_vec(&fields)
}

fn take_arguments(message: &mut ClientJsonRpcMessage) -> Option<RawArguments> {
    let JsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::CallToolRequest(call) = &mut request.request else { return None };
    let arguments = call.extensions.get::<RawArguments>().cloned()?;
    call.params.arguments = None;
    Some(arguments)
}

/// Creates the error that replaces an invalid answer.
pub(super) fn invalid_answer(request: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData::parse_error("the server's answer is not a valid JSON-RPC response", None);
    ServerJsonRpcMessage::error(error, Some(request))
}

impl Unread {
    /// Converts the unread text to an error for its request, because no other answer follows.
    pub(super) fn into_answer(self, request: RequestId) -> ServerJsonRpcMessage {
        match self.reason {
            Unreadable::TooManyValues => {
                let message = format!("the server's answer has more than {MAX_JSON_VALUES} values");
                ServerJsonRpcMessage::error(ErrorData::new(ErrorCode(TOO_LARGE), message, None), Some(request))
            }
            Unreadable::Invalid(_) => invalid_answer(request),
        }
    }
}

/// The properties that an invalid message was meant to have, as far as the top-level keys of the line show them.
///
/// A server that sends a broken answer does not send another one, so its call need not wait for its deadline. A line
/// that may be anything, such as a log line on the wrong stream, does not end a call.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Remains {
    /// Whether it was meant to be a JSON-RPC message.
    is_rpc: bool,
    /// Whether it was meant to be a request or a notification.
    pub(super) has_method: bool,
    /// The request id, if it is a number, as all our ids are.
    pub(super) id: Option<i64>,
}

impl Remains {
    /// Scans a line, which may be invalid JSON, from its first brace.
    fn parse(line: &[u8]) -> Self {
        let mut found = Self::default();
        let mut rest = line.iter().position(|byte| *byte == b'{').map_or(&[][..], |at| &line[at..]);
        let mut depth = 0_u32;
        while let Some((byte, after)) = rest.split_first() {
            rest = after;
            match byte {
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'"' => {
                    let (text, after) = string(rest);
                    rest = after;
                    if depth == 1
                        && let Some(value) = after.trim_ascii_start().strip_prefix(b":")
                    {
                        found.note(text, value.trim_ascii_start());
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Returns whether the line was meant to be the answer to a request.
    pub(super) fn is_answer(&self) -> bool {
        self.is_rpc && !self.has_method
    }

    fn note(&mut self, key: &[u8], value: &[u8]) {
        match key {
            b"jsonrpc" => self.is_rpc = true,
            b"method" => self.has_method = true,
            b"id" => self.id = self.id.or_else(|| number(value)),
            _ => {}
        }
    }
}

/// Splits at the closing quote of a string. An unterminated string extends to the end of the line.
fn string(text: &[u8]) -> (&[u8], &[u8]) {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let is_end = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        is_end
    });
    end.map_or((text, &[]), |at| (&text[..at], &text[at + 1..]))
}

/// Parses an integer, which may be in quotes.
fn number(value: &[u8]) -> Option<i64> {
    let digits = value.strip_prefix(b"\"").unwrap_or(value);
    let length = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(&digits[..length]).ok()?.parse().ok()
}

/// The escape of U+FFFD, the replacement character.
const REPLACEMENT: &[u8] = b"\\ufffd";

/// Replaces each escaped lone surrogate in JSON text with U+FFFD. JSON can escape half of a surrogate pair, which is
/// not a character. Programs that count UTF-16 units produce such text when they cut an emoji in two.
fn without_lone_surrogates(text: &[u8]) -> Cow<'_, [u8]> {
    let mut replaced = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(found) = text[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        at += match (unit(&text[at..]), text.get(at + 6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                replaced.to_mut()[at..at + 6].copy_from_slice(REPLACEMENT);
                6
            }
            _ => 2,
        };
        at = at.min(text.len());
    }
    replaced
}

/// Parses the `\u` escape at the start of the text, if there is one, as a UTF-16 unit.
fn unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.get(..4)?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use rmcp::model::{CallToolRequest, CallToolRequestParams};
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn arguments_are_written_as_they_were_given() {
        let given = r#"{"wei": 12345678901234567890123, "max": 18446744073709551616,
            "ratio": 0.1234567890123456789012, "text": "a\nb"}"#;
        let params = CallToolRequestParams::new("pay").with_arguments(serde_json::from_str(given).unwrap());
        let mut request = CallToolRequest::new(params);
        request.extensions.insert(RawArguments::new(&Bytes::from(given)));
        let message = ClientJsonRpcMessage::request(ClientRequest::CallToolRequest(request), NumberOrString::Number(7));
        let text = String::from_utf8(write(message).unwrap()).unwrap();
        assert!(text.contains(&given.replace('\n', " ")) && !text.contains('\n'), "{text}");
        let message: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&message["id"], &message["params"]["name"], &message["method"]),
            (&json!(7), &json!("pay"), &json!("tools/call"))
        );
    }

    fn result(message: &ServerJsonRpcMessage) -> &str {
        match message {
            JsonRpcMessage::Response(it) => match &it.result {
                ServerResult::CustomResult(CustomResult(Value::String(json))) => json,
                other => panic!("{other:?}"),
            },
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_result_of_a_tool_stays_as_it_was_sent() {
        for (sent, read_as) in [
            (r#"{"content":[],"structuredContent":{"wei":12345678901234567890123,"e":1E400}}"#, None),
            (r#"{"structuredContent":[1.10,18446744073709551616]}"#, None),
            (r#"{"content":[{"type":"hologram","depth":0.1234567890123456789012}]}"#, None),
            (
                r#"{"content":[{"type":"text","text":"bad \ud83d end"}]}"#,
                Some(r#"{"content":[{"type":"text","text":"bad \ufffd end"}]}"#),
            ),
        ] {
            let text = format!(r#"{{"jsonrpc":"2.0","id":4,"result":{sent}}}"#);
            let Ok(message) = read(format!("\u{feff}{text}").as_bytes()) else { panic!("{text}") };
            assert_eq!(result(&message), read_as.unwrap_or(sent));
            let from_event: ServerJsonRpcMessage =
                serde_json::from_str(&normalize_event(&text, None).unwrap()).unwrap();
            assert_eq!(result(&from_event), read_as.unwrap_or(sent));
        }
    }

    #[test]
    fn an_event_is_a_message_or_nothing() {
        let asked = || Some(NumberOrString::Number(4));
        for noise in ["ping", "", "{}", "{\"level\":\"info\"}", "[]", "{\"jsonrpc\":\"2.0\",\"method\":\"x\", oops"] {
            assert_eq!(normalize_event(noise, asked()), None, "{noise}");
        }
        let refusal =
            |id: &str| format!(r#"{{"jsonrpc":"2.0","error":{{"code":-32000,"message":"No valid session"}}{id}}}"#);
        for id in [r#","id":null"#, r#","id":"server-error""#, ""] {
            let event: Value = serde_json::from_str(&normalize_event(&refusal(id), asked()).unwrap()).unwrap();
            assert_eq!((&event["id"], &event["error"]["code"]), (&json!(4), &json!(-32000)), "{id}");
        }
        for id in [r#","id":4"#, r#","id":"4""#] {
            assert_eq!(normalize_event(&refusal(id), asked()).unwrap(), refusal(id));
        }
        let broken = normalize_event(r#"{"jsonrpc":"2.0","id":4,"result":{"content":[{"#, None).unwrap();
        assert!(broken.contains("\"id\":4") && broken.contains("-32700"), "{broken}");
    }

    fn remains(line: &str) -> (bool, Option<i64>) {
        let found = Remains::parse(line.as_bytes());
        (found.is_answer(), found.id)
    }

    #[test]
    fn the_id_of_a_broken_answer_is_found() {
        for line in [
            r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"te"#,
            r#"{"jsonrpc": "2.0", "id" : 5, "result": nonsense}"#,
            r#"{"jsonrpc":"2.0","result":{"id":7,"text":"\"id\":8"},"id":5,}"#,
            r#"{"jsonrpc":"2.0","id":"5","result":{}}"#,
            r#"INFO listening{"jsonrpc":"2.0","id":5}"#,
            r#"{"id":5,"jsonrpc":"2.0","result":{"method":"x"}} trailing"#,
            "{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":\"\u{fffd}",
        ] {
            assert_eq!(remains(line), (true, Some(5)), "{line}");
        }
    }

    #[test]
    fn an_answer_without_a_usable_id_has_none() {
        for line in [
            r#"{"jsonrpc":"2.0","result":{"id":7}}"#,
            r#"{"jsonrpc":"2.0","id":null,"error":{}}"#,
            r#"{"jsonrpc":"2.0","id":"ask-5","result":1"#,
            r#"{"jsonrpc":"2.0","id":99999999999999999999,"result":1}"#,
        ] {
            assert_eq!(remains(line), (true, None), "{line}");
        }
    }

    #[test]
    fn what_is_no_answer_is_none() {
        for line in [
            "Starting server...",
            r#"{"level":"info","message":"ready","jsonrpc_port":1}"#,
            r#"{"not": "a message"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"#,
            r#"{"jsonrpc":"2.0","id":5,"method":"ping"#,
            r#"["jsonrpc", {"jsonrpc": 1}"#,
            "{\"",
            "",
        ] {
            let found = Remains::parse(line.as_bytes());
            assert!(!found.is_answer() || line.starts_with('['), "{line}: {found:?}");
        }
    }

    #[test]
    fn half_of_a_pair_becomes_the_replacement_character() {
        for (text, expected) in [
            (r#""bad \ud83d end""#, r#""bad \ufffd end""#),
            (r#""\uDC79""#, r#""\ufffd""#),
            (r#""\ud83d\ud83d\udf79""#, r#""\ufffd\ud83d\udf79""#),
            (r#""\udf79\ud83d""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\udf79 \u00e9 \\ud83d \"""#, r#""\ud83d\udf79 \u00e9 \\ud83d \"""#),
            (r#""\ud83"#, r#""\ud83"#),
            (r"\", r"\"),
            ("\"\\ud8é\"", "\"\\ud8é\""),
        ] {
            assert_eq!(String::from_utf8_lossy(&without_lone_surrogates(text.as_bytes())), expected);
        }
    }
}
