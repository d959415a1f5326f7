//! Converts an HTTP response to data or an error. Applies limits while it reads.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Bytes, BytesMut};
use openskill_proto::json::select;
use openskill_proto::limits::{MAX_EVENT_BYTES, MAX_OUTPUT_BYTES};
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::untrusted_json::without_byte_order_mark;
use openskill_text::sse::DecodeError;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, RETRY_AFTER};
use reqwest::{Response, StatusCode};
use serde_json::Value;
use serde_json::value::RawValue;

use super::messages::{Divider, StreamMessage};
use super::secrets::Secrets;
use super::status;
use crate::events::EventSink;
use crate::manifest::http::{Http, Method as SkillMethod, Stream};
use crate::runner::RawOutput;

/// The maximum part of an error response's body that is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// The maximum number of messages in a stream.
const MAX_MESSAGES: usize = 100_000;

/// A message that ends some streams and is not data.
const END_MARK: &str = "[DONE]";

/// How a body is parsed, according to its content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyKind {
    Json,
    Text,
    Events,
    Lines,
    Other,
    /// The server sent no content type.
    Unknown,
}

/// Collects the messages of a stream.
#[derive(Default)]
struct StreamMessages {
    /// The data of all messages, or only of the last one, as the manifest says.
    values: Vec<String>,
    count: usize,
}

/// Reads the responses of one call.
pub(super) struct ResponseReader<'a> {
    pub(super) http: &'a Http,
    pub(super) secrets: &'a Secrets,
    pub(super) events: &'a EventSink,
}

/// Checks the limit again, because text becomes longer as JSON.
pub(super) fn enforce_limit(raw: RawOutput) -> RawOutput {
    match raw {
        RawOutput::Answer { json, .. } | RawOutput::Value(json) if json.len() > MAX_OUTPUT_BYTES => {
            RawOutput::Failed(over())
        }
        raw => raw,
    }
}

impl ResponseReader<'_> {
    /// Reads a response that is not a redirect, within the limits.
    pub(super) async fn read(&self, response: Response) -> RawOutput {
        if response.status().is_success() {
            self.read_success(response).await.unwrap_or_else(RawOutput::Failed)
        } else {
            self.read_failure(response).await
        }
    }

    async fn read_success(&self, response: Response) -> Result<RawOutput, SkillError> {
        let answer = |json: String| RawOutput::Answer { json, otherwise: None, refused: false };
        if self.http.method == SkillMethod::Head || matches!(response.status().as_u16(), 204 | 205) {
            return Ok(answer("null".to_owned()));
        }
        if let Some(coding) = header(&response, &CONTENT_ENCODING).filter(|it| !it.eq_ignore_ascii_case("identity")) {
            let coding = status::excerpt(&coding, 40);
            return Err(invalid_response(format!(
                "the server compressed its answer ({coding}), which the request did not accept"
            )));
        }
        let content_type = header(&response, &CONTENT_TYPE);
        let kind = kind(content_type.as_deref());
        let divider = match kind {
            BodyKind::Events => Some(Divider::events()),
            BodyKind::Lines => Some(Divider::Lines(Vec::new())),
            _ => None,
        };
        if let Some(divider) = divider.filter(|_| self.http.stream != Stream::Off) {
            return self.read_stream(response, divider).await.map(answer);
        }
        let body = whole(response).await?;
        match kind {
            _ if body.is_empty() => Ok(answer("null".to_owned())),
            BodyKind::Json => self.json(utf8(&body)?),
            BodyKind::Text | BodyKind::Events | BodyKind::Lines => {
                Ok(answer(Value::from(plain(&body, content_type.as_deref())?).to_string()))
            }
            BodyKind::Unknown => match std::str::from_utf8(&body) {
                Ok(text) if serde_json::from_str::<&RawValue>(text).is_ok() => self.json(text),
                Ok(text) => Ok(answer(Value::from(text).to_string())),
                Err(_) => self.binary(body, "application/octet-stream").map(answer),
            },
            BodyKind::Other => self.binary(body, content_type.as_deref().unwrap_or_default()).map(answer),
        }
    }

    /// Returns the JSON, or the part that the manifest selects, which is always data.
    fn json(&self, text: &str) -> Result<RawOutput, SkillError> {
        let pointer = &self.http.response.data;
        if pointer.is_empty() {
            return Ok(RawOutput::Answer { json: text.to_owned(), otherwise: None, refused: false });
        }
        let value = serde_json::from_str::<&RawValue>(text)
            .map_err(|error| invalid_response(format!("the server's answer is not valid JSON: {error}")))?;
        match select(value.get(), pointer) {
            Some(found) => Ok(RawOutput::Value(found.to_owned())),
            None => {
                Err(invalid_response(format!("the server's answer has no value at '{pointer}' (http.response.data)")))
            }
        }
    }

    fn binary(&self, body: Bytes, content_type: &str) -> Result<String, SkillError> {
        let content_type = status::excerpt(content_type, 100);
        if !self.http.response.binary {
            let message = format!(
                "the server answered with '{content_type}', which is neither JSON nor text: to get it as \
                 base64, set http.response.binary in the manifest"
            );
            return Err(invalid_response(message));
        }
        let base64 = STANDARD.encode(self.secrets.scrub_bytes(body));
        Ok(serde_json::json!({"content_type": content_type, "base64": base64}).to_string())
    }

    /// Reads a body of events or lines. Forwards each message as it arrives.
    async fn read_stream(&self, mut response: Response, mut divider: Divider) -> Result<String, SkillError> {
        let mut messages = StreamMessages::default();
        let mut bytes = 0;
        while let Some(chunk) = chunk(&mut response).await? {
            bytes += chunk.len();
            if bytes > MAX_OUTPUT_BYTES {
                return Err(over());
            }
            for message in divider.take(&chunk).map_err(unread)? {
                self.add(message, &mut messages).await?;
            }
        }
        if let Some(message) = divider.end().map_err(unread)? {
            self.add(message, &mut messages).await?;
        }
        Ok(match self.http.stream {
            Stream::Last => messages.values.pop().unwrap_or_else(|| "null".to_owned()),
            Stream::Auto | Stream::Off => format!("[{}]", messages.values.join(",")),
        })
    }

    /// Adds the data of a message, or forwards it if it is an event.
    async fn add(&self, message: StreamMessage, messages: &mut StreamMessages) -> Result<(), SkillError> {
        let StreamMessage { event, data } = message;
        messages.count += 1;
        if messages.count > MAX_MESSAGES {
            let message = format!("the server's answer has more than {MAX_MESSAGES} events");
            return Err(SkillError::new(ErrorCode::OutputTooLarge, message));
        }
        let value = serde_json::from_str::<&RawValue>(&data);
        if let Some(name @ ("progress" | "log")) = event.as_deref()
            && data.starts_with('{')
        {
            // A script would send the same line.
            self.events.line(format!("{{\"{name}\":{}}}", self.secrets.scrub_json(data)).as_bytes()).await;
            return Ok(());
        }
        let value = match value {
            Ok(value) => match select(value.get(), &self.http.response.data) {
                Some(found) => found.to_owned(),
                None => return Ok(()),
            },
            Err(_) if event.is_some() && data == END_MARK => return Ok(()),
            Err(_) if event.is_some() => Value::from(data).to_string(),
            Err(error) => {
                return Err(invalid_response(format!(
                    "line {} of the server's answer is not valid JSON: {error}",
                    messages.count
                )));
            }
        };
        let value = self.secrets.scrub_json(value);
        let line = format!("{{\"partial\":{value}}}");
        // With a listener, an overlong line counts as dropped.
        self.events.line(if line.len() > MAX_EVENT_BYTES { b"" } else { line.as_bytes() }).await;
        if self.http.stream == Stream::Last {
            messages.values.clear();
        }
        messages.values.push(value);
        Ok(())
    }

    async fn read_failure(&self, response: Response) -> RawOutput {
        let code = response.status();
        let retry_after = header(&response, &RETRY_AFTER).and_then(|it| status::retry_after(&it, SystemTime::now()));
        let compressed = response.headers().contains_key(CONTENT_ENCODING);
        let readable = !compressed && kind(header(&response, &CONTENT_TYPE).as_deref()) != BodyKind::Other;
        let body = if readable { beginning(response).await } else { Bytes::new() };
        let body = String::from_utf8_lossy(&body);
        let body = match serde_json::from_str::<&RawValue>(&body) {
            Ok(_) => self.secrets.scrub_json(body.into_owned()),
            Err(_) => self.secrets.scrub_text(body.into_owned()),
        };
        let error = status::error_from_response(code, retry_after, &body, &self.http.response.error);
        RawOutput::Answer { json: body, otherwise: Some(error), refused: code == StatusCode::TOO_MANY_REQUESTS }
    }
}

/// Reads the beginning of a body. An error is reported even if its text is incomplete.
async fn beginning(mut response: Response) -> Bytes {
    let mut body = BytesMut::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        let room = MAX_ERROR_BYTES - body.len();
        body.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if body.len() == MAX_ERROR_BYTES {
            break;
        }
    }
    body.freeze()
}

async fn whole(mut response: Response) -> Result<Bytes, SkillError> {
    if response.content_length().is_some_and(|length| length > MAX_OUTPUT_BYTES as u64) {
        return Err(over());
    }
    let mut body = BytesMut::new();
    while let Some(chunk) = chunk(&mut response).await? {
        if body.len() + chunk.len() > MAX_OUTPUT_BYTES {
            return Err(over());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body.freeze())
}

async fn chunk(response: &mut Response) -> Result<Option<Bytes>, SkillError> {
    response.chunk().await.map_err(|error| status::error_from_cause(&error.without_url(), false))
}

/// Parses text as UTF-8, without its byte order mark.
fn utf8(body: &[u8]) -> Result<&str, SkillError> {
    std::str::from_utf8(without_byte_order_mark(body)).map_err(|_| unread(DecodeError::NotUtf8))
}

fn unread(error: DecodeError) -> SkillError {
    match error {
        DecodeError::TooLarge => over(),
        DecodeError::NotUtf8 => invalid_response("the server's answer is not UTF-8".to_owned()),
    }
}

/// Parses text as UTF-8 or Latin-1.
fn plain(body: &[u8], content_type: Option<&str>) -> Result<String, SkillError> {
    let is_latin = content_type.is_some_and(|it| it.to_ascii_lowercase().contains("charset=iso-8859-1"));
    match utf8(body) {
        Ok(text) if !is_latin => Ok(text.to_owned()),
        Err(error) if !is_latin => Err(error),
        _ => Ok(body.iter().map(|it| char::from(*it)).collect()),
    }
}

fn kind(content_type: Option<&str>) -> BodyKind {
    let Some(content_type) = content_type else { return BodyKind::Unknown };
    let essence = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "text/event-stream" => BodyKind::Events,
        "application/x-ndjson" | "application/ndjson" | "application/jsonl" | "application/x-jsonlines" => {
            BodyKind::Lines
        }
        "application/json" | "text/json" => BodyKind::Json,
        "application/xml" | "application/yaml" | "application/x-yaml" | "application/javascript" => BodyKind::Text,
        "" => BodyKind::Unknown,
        other if other.ends_with("+json") => BodyKind::Json,
        other if other.starts_with("text/") || other.ends_with("+xml") || other.ends_with("+yaml") => BodyKind::Text,
        _ => BodyKind::Other,
    }
}

fn header(response: &Response, name: &HeaderName) -> Option<String> {
    response.headers().get(name).map(|it| String::from_utf8_lossy(it.as_bytes()).into_owned())
}

fn invalid_response(message: String) -> SkillError {
    SkillError::new(ErrorCode::ExecutionError, message)
}

fn over() -> SkillError {
    SkillError::new(ErrorCode::OutputTooLarge, format!("the server's answer is over {MAX_OUTPUT_BYTES} bytes"))
}
