//! Reads and writes the messages of a connection.
//!
//! The protocol library keeps JSON as values, which change numbers of more than 64 bits. So the arguments of a call and the
//! result of a tool stay text: as [`Arguments`], and as a string in the place of the result.

use std::collections::BTreeMap;

use bytes::Bytes;
use openskill_proto::limits::MAX_JSON_VALUES;
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
use crate::untrusted_json::{Unreadable, parse};

/// The longest message, in bytes.
pub(super) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// The code of errors in place of answers that are too large. Servers use smaller numbers.
pub(super) const TOO_LARGE: i32 = i32::MIN;

/// Some servers write one before their first message.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A text that is not a message.
pub(super) struct Unread {
    /// What can be told of it all the same.
    pub(super) remains: Remains,
    reason: Unreadable,
}

/// The arguments of a call, a JSON object without line breaks: an extension of its request.
#[derive(Debug, Clone)]
pub(super) struct Arguments(Bytes);

impl Arguments {
    pub(super) fn new(json: &Bytes) -> Self {
        // Strings hold no line breaks, and a message over stdio may not have any.
        let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
        if !json.iter().any(is_break) {
            return Self(json.clone());
        }
        Self(json.iter().map(|byte| if is_break(byte) { b' ' } else { *byte }).collect())
    }
}

/// What a message is, without most of its values.
struct Envelope {
    id: Option<RequestId>,
    is_error: bool,
    /// The answer to `tools/call`, with its result as text.
    tool_result: Option<ServerJsonRpcMessage>,
}

impl Envelope {
    fn read(text: &[u8]) -> Result<Self, Unreadable> {
        #[derive(Deserialize)]
        struct Fields<'a> {
            #[serde(rename = "jsonrpc")]
            _version: &'a str,
            id: Option<RequestId>,
            method: Option<IgnoredAny>,
            #[serde(borrow)]
            result: Option<&'a RawValue>,
            error: Option<IgnoredAny>,
        }
        let Fields { id, method, result, error, .. } = parse(text)?;
        let text_of = |result: &RawValue| ServerResult::CustomResult(CustomResult(result.get().into()));
        let tool_result = match (&id, result) {
            (Some(id), Some(result)) if method.is_none() && ToolResult::is_one(result.get()) => {
                Some(JsonRpcMessage::response(text_of(result), id.clone()))
            }
            _ => None,
        };
        Ok(Self { id, is_error: error.is_some() && method.is_none(), tool_result })
    }
}

/// Reads one message.
///
/// # Errors
/// It has too many values, or is not a message.
pub(super) fn read(text: &[u8]) -> Result<ServerJsonRpcMessage, Unread> {
    let text = &*without_lone_surrogates(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text));
    let unread = |reason| Unread { remains: Remains::of(text), reason };
    let envelope = Envelope::read(text);
    match envelope {
        Err(reason @ Unreadable::TooManyValues) => Err(unread(reason)),
        Ok(Envelope { tool_result: Some(answer), .. }) => Ok(answer),
        _ => serde_json::from_slice(text).map_err(|error| unread(error.into())),
    }
}

/// The text of an event as the protocol library shall parse it. None if it is not a message. `asked`: the request that it
/// can only belong to.
pub(super) fn of_event(text: &str, asked: Option<RequestId>) -> Option<String> {
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
            let remains = Remains::of(&text);
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

/// Whether an answer has the id of a request. Ours are numbers, which some servers answer as strings. An error may have none, or
/// one of the server's own, if the server could not tell which request it refused.
pub(super) fn is_id_of(asked: &RequestId, id: Option<&RequestId>) -> bool {
    id == Some(asked)
        || matches!((asked, id), (NumberOrString::Number(asked), Some(NumberOrString::String(id))) if id.parse() == Ok(*asked))
}

/// Writes one message, with the arguments of a call as they were given.
///
/// # Errors
/// It has values that JSON has not.
pub(super) fn write(mut message: ClientJsonRpcMessage) -> serde_json::Result<Vec<u8>> {
    let Some(arguments) = take_arguments(&mut message) else { return serde_json::to_vec(&message) };
    let text = serde_json::to_vec(&message)?;
    let mut fields: BTreeMap<&str, &RawValue> = serde_json::from_slice(&text)?;
    let mut params: BTreeMap<&str, &RawValue> =
        fields.get("params").map_or_else(|| Ok(BTreeMap::new()), |it| serde_json::from_str(it.get()))?;
    params.insert("arguments", serde_json::from_slice(&arguments.0)?);
    let params = to_raw_value(&params)?;
    fields.insert("params", &params);
    serde_json::to_vec(&fields)
}

fn take_arguments(message: &mut ClientJsonRpcMessage) -> Option<Arguments> {
    let JsonRpcMessage::Request(request) = message else { return None };
    let ClientRequest::CallToolRequest(call) = &mut request.request else { return None };
    let arguments = call.extensions.get::<Arguments>().cloned()?;
    call.params.arguments = None;
    Some(arguments)
}

/// The error in place of an answer that is not valid.
pub(super) fn invalid_answer(request: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData::parse_error("the server's answer is not a valid JSON-RPC response", None);
    ServerJsonRpcMessage::error(error, Some(request))
}

impl Unread {
    /// The error that its request is answered with: no other answer follows.
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
        request.extensions.insert(Arguments::new(&Bytes::from(given)));
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
            let with_mark = [BYTE_ORDER_MARK, text.as_bytes()].concat();
            let Ok(message) = read(&with_mark) else { panic!("{text}") };
            assert_eq!(result(&message), read_as.unwrap_or(sent));
            let of_event: ServerJsonRpcMessage = serde_json::from_str(&of_event(&text, None).unwrap()).unwrap();
            assert_eq!(result(&of_event), read_as.unwrap_or(sent));
        }
    }

    #[test]
    fn an_event_is_a_message_or_nothing() {
        let asked = || Some(NumberOrString::Number(4));
        for noise in ["ping", "", "{}", "{\"level\":\"info\"}", "[]", "{\"jsonrpc\":\"2.0\",\"method\":\"x\", oops"] {
            assert_eq!(of_event(noise, asked()), None, "{noise}");
        }
        let refusal =
            |id: &str| format!(r#"{{"jsonrpc":"2.0","error":{{"code":-32000,"message":"No valid session"}}{id}}}"#);
        for id in [r#","id":null"#, r#","id":"server-error""#, ""] {
            let event: Value = serde_json::from_str(&of_event(&refusal(id), asked()).unwrap()).unwrap();
            assert_eq!((&event["id"], &event["error"]["code"]), (&json!(4), &json!(-32000)), "{id}");
        }
        for id in [r#","id":4"#, r#","id":"4""#] {
            assert_eq!(of_event(&refusal(id), asked()).unwrap(), refusal(id));
        }
        let broken = of_event(r#"{"jsonrpc":"2.0","id":4,"result":{"content":[{"#, None).unwrap();
        assert!(broken.contains("\"id\":4") && broken.contains("-32700"), "{broken}");
    }
}
