//! Posts a message to a server over streamable HTTP. Limits the size of the answer before parsing it.
//!
//! The protocol library's client does not limit the number of values in an answer.

use std::collections::HashMap;
use std::io;

use bytes::Bytes;
use futures_util::stream::{BoxStream, iter};
use futures_util::{StreamExt as _, TryStreamExt as _};
use openskill_sandbox::untrusted_json::{LIGHT_BYTES, off_shard};
use openskill_text::sse::{DecodeError, SseDecoder, SseEvent};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::Sse;

use super::message::{self, MAX_MESSAGE_BYTES, is_id_of};

/// The maximum part of an error response's body that is read, in bytes.
const MAX_ERROR_BYTES: usize = 64 * 1024;

pub(super) type Headers = HashMap<HeaderName, HeaderValue>;
pub(super) type Stream = BoxStream<'static, Result<Sse, SseError>>;
pub(super) type Fallible<T> = Result<T, StreamableHttpError<reqwest::Error>>;

/// The server refused a request without naming it, or accepted it without an answer. A restarted server refuses
/// requests of earlier sessions in this way.
#[derive(Debug, thiserror::Error)]
#[error("{said} (HTTP status {status})")]
pub(super) struct Unanswered {
    pub(super) status: u16,
    /// The text of the server's response.
    pub(super) said: String,
}

impl Unanswered {
    /// Finds an `Unanswered` in an error's chain of causes.
    pub(super) fn from_error(error: &StreamableHttpError<reqwest::Error>) -> Option<&Self> {
        match error {
            StreamableHttpError::Io(error) => error.get_ref()?.downcast_ref(),
            _ => None,
        }
    }
}

fn unanswered_error(status: StatusCode, said: String) -> StreamableHttpError<reqwest::Error> {
    io::Error::other(Unanswered { status: status.as_u16(), said }).into()
}

/// Posts a message.
///
/// # Errors
/// Fails if the server is unreachable or refuses the message, or if its answer is too long or has another content
/// type.
pub(super) async fn post(
    client: &reqwest::Client,
    uri: &str,
    message: ClientJsonRpcMessage,
    session: Option<&str>,
    headers: Headers,
) -> Fallible<StreamableHttpPostResponse> {
    let reserved = ["accept", HEADER_SESSION_ID, HEADER_LAST_EVENT_ID];
    if let Some(name) = headers.keys().find(|name| reserved.iter().any(|it| it.eq_ignore_ascii_case(name.as_str()))) {
        return Err(StreamableHttpError::ReservedHeaderConflict(name.to_string()));
    }
    let mut request = client.post(uri).headers(headers.into_iter().collect());
    if let Some(session) = session {
        request = request.header(HEADER_SESSION_ID, session);
    }
    let request = request.header(ACCEPT, format!("{EVENT_STREAM_MIME_TYPE}, {JSON_MIME_TYPE}"));
    let asked = match &message {
        JsonRpcMessage::Request(request) => Some(request.id.clone()),
        _ => None,
    };
    let request = request.header(CONTENT_TYPE, JSON_MIME_TYPE).body(message::write(message)?);
    let response = request.send().await.map_err(StreamableHttpError::Client)?;
    if response.status().is_success() {
        read(response, asked, session.is_some()).await
    } else {
        refusal(response, asked, session.is_some()).await
    }
}

async fn read(response: Response, asked: Option<RequestId>, in_session: bool) -> Fallible<StreamableHttpPostResponse> {
    let status = response.status();
    let Some(asked) = asked else { return Ok(StreamableHttpPostResponse::Accepted) };
    if matches!(status, StatusCode::ACCEPTED | StatusCode::NO_CONTENT) {
        return Err(unanswered_error(status, "the server accepted the request without answering it".to_owned()));
    }
    let session = header(&response, HEADER_SESSION_ID);
    if is_of_type(&response, EVENT_STREAM_MIME_TYPE) {
        return Ok(StreamableHttpPostResponse::Sse(bound_messages(events(response), Some(asked.clone())), session));
    }
    if !is_of_type(&response, JSON_MIME_TYPE) {
        return Err(StreamableHttpError::UnexpectedContentType(header(&response, CONTENT_TYPE.as_str())));
    }
    let body = body(response, MAX_MESSAGE_BYTES).await?;
    let answer = off_shard(body.len() > LIGHT_BYTES, move || message::read(&body)).await;
    let answer = match answer {
        Ok(JsonRpcMessage::Error(it)) if !is_id_of(&asked, it.id.as_ref()) => {
            error_without_id(it.error, asked, status, in_session)?
        }
        Ok(JsonRpcMessage::Response(it)) if !is_id_of(&asked, Some(&it.id)) => message::invalid_answer(asked),
        Ok(JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_)) => message::invalid_answer(asked),
        Ok(answer) => answer,
        Err(unread) => unread.into_answer(asked),
    };
    Ok(StreamableHttpPostResponse::Json(answer, session))
}

/// Converts an error without a request id. It answers this request, unless the session may be the reason.
fn error_without_id(
    error: ErrorData,
    asked: RequestId,
    status: StatusCode,
    in_session: bool,
) -> Fallible<ServerJsonRpcMessage> {
    if in_session {
        return Err(unanswered_error(status, error.message.into_owned()));
    }
    if status.is_server_error() {
        return Err(HttpStatusError::new(status.as_u16(), None).into());
    }
    Ok(ServerJsonRpcMessage::error(error, Some(asked)))
}

/// Interprets an error status. The server may give the reason as a JSON-RPC error.
async fn refusal(
    response: Response,
    asked: Option<RequestId>,
    in_session: bool,
) -> Fallible<StreamableHttpPostResponse> {
    let status = response.status();
    match (status, header(&response, WWW_AUTHENTICATE.as_str())) {
        (StatusCode::UNAUTHORIZED, Some(challenge)) => {
            return Err(StreamableHttpError::AuthRequired(AuthRequiredError::new(challenge)));
        }
        (StatusCode::FORBIDDEN, Some(challenge)) => {
            return Err(StreamableHttpError::InsufficientScope(InsufficientScopeError::new(challenge, None)));
        }
        (StatusCode::NOT_FOUND, _) if in_session => return Err(StreamableHttpError::SessionExpired),
        _ => {}
    }
    let says_it_all = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
    let session = header(&response, HEADER_SESSION_ID);
    if !says_it_all.contains(&status)
        && is_of_type(&response, JSON_MIME_TYPE)
        && let Ok(body) = body(response, MAX_ERROR_BYTES).await
        && let Ok(ServerJsonRpcMessage::Error(it)) = message::read(&body)
    {
        let error = match asked {
            Some(asked) if !is_id_of(&asked, it.id.as_ref()) => error_without_id(it.error, asked, status, in_session)?,
            _ => ServerJsonRpcMessage::Error(it),
        };
        return Ok(StreamableHttpPostResponse::Json(error, session));
    }
    Err(HttpStatusError::new(status.as_u16(), None).into())
}

async fn body(mut response: Response, max_size: usize) -> Fallible<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(StreamableHttpError::Client)? {
        if body.len() + chunk.len() > max_size {
            return Err(StreamableHttpError::ResponseBodyTooLarge { max_size });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// Splits a body into events of limited size.
fn events(response: Response) -> Stream {
    let mut decoder = SseDecoder::new(MAX_MESSAGE_BYTES);
    let decode = move |chunk: reqwest::Result<Bytes>| -> Result<_, SseError> {
        let events = decoder.take(&chunk.map_err(broken)?).map_err(|error| match error {
            DecodeError::TooLarge => broken(format!("an event has more than {MAX_MESSAGE_BYTES} bytes")),
            DecodeError::NotUtf8 => broken(error),
        })?;
        Ok(iter(events.into_iter().map(|it| Ok::<_, SseError>(to_sse(it)))))
    };
    response.bytes_stream().map(decode).try_flatten().boxed()
}

fn broken(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SseError {
    SseError::Body(Box::new(io::Error::other(error)))
}

/// Converts an event to the protocol library's type.
fn to_sse(event: SseEvent) -> Sse {
    let name = Some(event.name).filter(|it| !it.is_empty());
    Sse { event: name, data: event.data, id: event.id, retry: event.retry_ms }
}

/// Limits the number of values in each message. An answer that exceeds the limit becomes an error; other events
/// are dropped. `asked`: the request that the events answer.
pub(super) fn bound_messages(events: Stream, asked: Option<RequestId>) -> Stream {
    let bound = move |event: Result<Sse, SseError>| {
        let asked = asked.clone();
        async move {
            let mut event = event?;
            let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
            if let Some(data) = event.data.take().filter(|_| is_message) {
                let is_long = data.len() > LIGHT_BYTES;
                event.data = off_shard(is_long, move || message::normalize_event(&data, asked)).await;
            }
            Ok(event)
        }
    };
    events.then(bound).boxed()
}

fn is_of_type(response: &Response, media_type: &str) -> bool {
    has_type(header(response, CONTENT_TYPE.as_str()).as_deref(), media_type)
}

fn has_type(content_type: Option<&str>, media_type: &str) -> bool {
    let begin = content_type.and_then(|it| it.as_bytes().get(..media_type.len()));
    begin.is_some_and(|it| it.eq_ignore_ascii_case(media_type.as_bytes()))
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|it| it.to_str().ok()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_types_have_no_case() {
        for media_type in ["application/json", "Application/JSON", "APPLICATION/JSON; charset=utf-8"] {
            assert!(has_type(Some(media_type), JSON_MIME_TYPE), "{media_type}");
        }
        assert!(has_type(Some("Text/Event-Stream"), EVENT_STREAM_MIME_TYPE));
        assert!(!has_type(Some("text/é"), EVENT_STREAM_MIME_TYPE) && !has_type(None, JSON_MIME_TYPE));
    }

    #[tokio::test]
    async fn events_of_other_kinds_are_no_messages() {
        let answer = "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}";
        let event = |kind: Option<&str>, data: &str| {
            let (event, data) = (kind.map(str::to_owned), Some(data.to_owned()));
            Ok(Sse { event, data, ..Sse::default() })
        };
        let events = [
            event(Some("ping"), "ping"),
            event(Some("endpoint"), answer),
            event(None, "heartbeat"),
            event(Some("message"), answer),
        ];
        let bounded = bound_messages(iter(events).boxed(), Some(RequestId::Number(4)));
        let data: Vec<_> = bounded.map(|it| it.unwrap().data).collect().await;
        assert_eq!(data, [None, None, None, Some(answer.to_owned())]);
    }

    #[tokio::test]
    async fn an_event_of_too_many_values_is_the_error_of_its_request_or_nothing() {
        let many = format!("[{}0]", "0,".repeat(100_000));
        let data = [
            format!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{many}}}"),
            format!("{{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{{\"_meta\":{many}}}}}"),
            "{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}".to_owned(),
        ];
        for asked in [None, Some(RequestId::Number(4))] {
            let events = data.clone().map(|it| Ok(Sse { data: Some(it), ..Sse::default() }));
            let bounded: Vec<_> =
                bound_messages(iter(events).boxed(), asked).map(|it| it.unwrap().data).collect().await;
            let [None, Some(error), Some(answer)] = &bounded[..] else { panic!("{bounded:?}") };
            assert!(
                error.contains("\"id\":4") && error.contains(&crate::runners::mcp::errors::TOO_LARGE.to_string()),
                "{error}"
            );
            assert_eq!(*answer, data[2]);
        }
    }
}
