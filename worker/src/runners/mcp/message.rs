//! Parses and writes a connection's messages.
//!
//! The protocol library parses JSON into values, which changes numbers of more than 64 bits. So a call's arguments
//! stay text as [`RawArguments`], and a tool's result stays text as a string.

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

use super::broken::Remains;
use super::surrogates::without_lone_surrogates;
use super::tool_result::ToolResult;

/// The maximum length of a message, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The code of an error that replaces an oversized answer. Servers use higher numbers.
pub(super) const TOO_LARGE: i32 = i32::MIN;

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
struct Envelope {
    id: Option<RequestId>,
    is_error: bool,
    /// The answer to `tools/call`, with its result as text.
    tool_result: Option<ServerJsonRpcMessage>,
}

impl Envelope {
    fn read(text: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct EnvelopeFields<'a> {
            #[serde(rename = "jsonrpc")]
            _version: &'a str,
            id: Option<RequestId>,
            method: Option<IgnoredAny>,
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            error: Option<IgnoredAny>,
        }
        let EnvelopeFields { id, method, result, error, .. } = parse(text)?;
        let is_answer = method.is_none();
        let json = result.map(RawValue::get).filter(|json| is_answer && ToolResult::is_one(json));
        let tool_result = id.clone().zip(json).map(|(id, json)| {
            ServerJsonRpcMessage::response(ServerResult::CustomResult(CustomResult(json.into())), id)
        });
        Ok(Self { id, is_error: error.is_some() && is_answer, tool_result })
    }
}

/// Parses one message.
///
/// # Errors
/// Fails if the text has too many values or is not a message.
pub(super) fn read(text: &[u8]) -> Result<ServerJsonRpcMessage, Unread> {
    let text = &*without_lone_surrogates(without_byte_order_mark(text));
    let unread = |reason| Unread { remains: Remains::parse(text), reason };
    match Envelope::read(text) {
        Err(reason @ Unreadable::TooManyValues) => Err(unread(reason)),
        Ok(Envelope { tool_result: Some(answer), .. }) => Ok(answer),
        _ => serde_json::from_slice(text).map_err(|error| unread(error.into())),
    }
}

/// Converts an event's text to a form that the protocol library can parse. Returns `None` if it is not a message.
/// `asked`: the only request that it can belong to.
pub(super) fn normalize_event(text: &str, asked: Option<RequestId>) -> Option<String> {
    let text = without_lone_surrogates(text.as_bytes());
    let message = match Envelope::read(&text) {
        Ok(Envelope { tool_result: Some(answer), .. }) => answer,
        Ok(envelope) => match asked.filter(|asked| envelope.is_error && !is_id_of(asked, envelope.id.as_ref())) {
            Some(asked) => match serde_json::from_slice::<ServerJsonRpcMessage>(&text).ok()? {
                JsonRpcMessage::Error(it) => ServerJsonRpcMessage::error(it.error, Some(asked)),
                other => other,
            },
            None => return String::from_utf8(text.into_owned()).ok(),
        },
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
}
