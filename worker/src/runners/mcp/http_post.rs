//! Posts a message to a server over streamable HTTP, and bounds the answer before it is read.
//!
//! The protocol library's own client parses an answer without counting its values.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, JsonRpcMessage, RequestId, ServerJsonRpcMessage};
use rmcp::transport::common::http_header::{
    EVENT_STREAM_MIME_TYPE, HEADER_LAST_EVENT_ID, HEADER_SESSION_ID, JSON_MIME_TYPE,
};
use rmcp::transport::streamable_http_client::{
    AuthRequiredError, HttpStatusError, InsufficientScopeError, SseError, StreamableHttpError,
    StreamableHttpPostResponse,
};
use sse_stream::{Sse, SseStream};

use super::message::{self, MAX_MESSAGE_BYTES};
use crate::untrusted_json::{LIGHT_BYTES, off_shard};

/// How much of the body of a failure is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

pub(super) type Headers = HashMap<HeaderName, HeaderValue>;
pub(super) type Stream = BoxStream<'static, Result<Sse, SseError>>;
pub(super) type Fallible<T> = Result<T, StreamableHttpError<reqwest::Error>>;

/// Posts a message.
///
/// # Errors
/// The server can't be reached or refuses the message, or its answer is too long or of another kind.
pub(super) async fn post(
    client: &reqwest::Client,
    uri: &str,
    message: &ClientJsonRpcMessage,
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
    let request = request.header(CONTENT_TYPE, JSON_MIME_TYPE).body(serde_json::to_vec(message)?);
    let response = request.send().await.map_err(StreamableHttpError::Client)?;
    let asked = match message {
        JsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    };
    if response.status().is_success() {
        read(response, asked).await
    } else {
        refusal(response, session.is_some()).await
    }
}

async fn read(response: Response, asked: Option<&RequestId>) -> Fallible<StreamableHttpPostResponse> {
    let is_empty = matches!(response.status(), StatusCode::ACCEPTED | StatusCode::NO_CONTENT);
    let Some(asked) = asked.filter(|_| !is_empty) else { return Ok(StreamableHttpPostResponse::Accepted) };
    let session = header(&response, HEADER_SESSION_ID);
    if is_of_type(&response, EVENT_STREAM_MIME_TYPE) {
        return Ok(StreamableHttpPostResponse::Sse(bounded(events(response), Some(asked.clone())), session));
    }
    if !is_of_type(&response, JSON_MIME_TYPE) {
        return Err(StreamableHttpError::UnexpectedContentType(header(&response, CONTENT_TYPE.as_str())));
    }
    let body = body(response, MAX_MESSAGE_BYTES).await?;
    let answer = off_shard(body.len() > LIGHT_BYTES, move || message::read(&body)).await;
    let answer = answer.unwrap_or_else(|unread| unread.into_answer(asked.clone()));
    Ok(StreamableHttpPostResponse::Json(answer, session))
}

/// What a status that is no success means. A server may give the reason as a JSON-RPC error.
async fn refusal(response: Response, in_session: bool) -> Fallible<StreamableHttpPostResponse> {
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
        && let Ok(error @ ServerJsonRpcMessage::Error(_)) = message::read(&body)
    {
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

/// The events of a body, each of a bounded number of bytes.
fn events(response: Response) -> Stream {
    let since_event = Arc::new(AtomicUsize::new(0));
    let read = Arc::clone(&since_event);
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk = chunk.map_err(io::Error::other)?;
        match read.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len() {
            ..=MAX_MESSAGE_BYTES => Ok(chunk),
            _ => Err(io::Error::other(format!("an event has more than {MAX_MESSAGE_BYTES} bytes"))),
        }
    });
    let events = SseStream::from_bytes_stream(bytes);
    events.inspect(move |_| since_event.store(0, Ordering::Relaxed)).boxed()
}

/// Events of a bounded number of values. The answer to a request that has more becomes an error, any other event is dropped.
/// `asked`: the request that the events follow.
pub(super) fn bounded(events: Stream, asked: Option<RequestId>) -> Stream {
    let bound = move |event: Result<Sse, SseError>| {
        let asked = asked.clone();
        async move {
            let mut event = event?;
            if let Some(data) = event.data.take() {
                // What is read here has fewer bytes than values are allowed.
                let is_long = data.len() > LIGHT_BYTES;
                event.data = off_shard(is_long, move || message::bounded(data, asked)).await;
            }
            Ok(event)
        }
    };
    events.then(bound).boxed()
}

fn is_of_type(response: &Response, media_type: &str) -> bool {
    header(response, CONTENT_TYPE.as_str()).is_some_and(|it| it.starts_with(media_type))
}

fn header(response: &Response, name: &str) -> Option<String> {
    response.headers().get(name).and_then(|it| it.to_str().ok()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::stream::iter;

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
            let bounded: Vec<_> = bounded(iter(events).boxed(), asked).map(|it| it.unwrap().data).collect().await;
            let [None, Some(error), Some(answer)] = &bounded[..] else { panic!("{bounded:?}") };
            assert!(error.contains("\"id\":4") && error.contains(&message::TOO_LARGE.to_string()), "{error}");
            assert_eq!(*answer, data[2]);
        }
    }
}
