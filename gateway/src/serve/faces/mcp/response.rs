//! HTTP responses, and the media types that clients accept.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use openskill_proto::metadata::TRACE_ID;

use super::jsonrpc::{self, Code, Id, RpcError};

/// The session id header.
pub(super) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The JSON media type.
pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// The media types that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    pub(super) json: bool,
    pub(super) events: bool,
}

impl Accepts {
    /// Reads `Accept`. A client without it, or with `*/*`, gets JSON: it may not expect a stream.
    pub(super) fn from_headers(headers: &HeaderMap) -> Self {
        let mut values = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok()).peekable();
        if values.peek().is_none() {
            return Self { json: true, events: false };
        }
        let mut accepts = Self { json: false, events: false };
        for kind in values.flat_map(|it| it.split(',')).filter_map(|it| it.split(';').next()) {
            match kind.trim().to_ascii_lowercase().as_str() {
                "application/json" | "application/*" | "*/*" => accepts.json = true,
                "text/event-stream" | "text/*" => accepts.events = true,
                _ => {}
            }
        }
        accepts
    }
}

/// Builds a JSON response.
pub(super) fn json(status: StatusCode, text: String) -> Response {
    (status, [(header::CONTENT_TYPE, JSON)], text).into_response()
}

/// Builds a stream of server-sent events, which proxies must not buffer.
pub(super) fn events(body: Body) -> Response {
    let no_cache = HeaderValue::from_static("no-cache, no-transform");
    let no_buffer = (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    ([(header::CONTENT_TYPE, EVENTS), (header::CACHE_CONTROL, no_cache), no_buffer], body).into_response()
}

/// Builds the response to notifications, and to clients' responses.
pub(super) fn accepted_response() -> Response {
    StatusCode::ACCEPTED.into_response()
}

/// Builds an error response.
pub(super) fn refuse(status: StatusCode, id: Option<&Id>, fault: &RpcError) -> Response {
    json(status, jsonrpc::error(id, fault))
}

/// Returns the HTTP status of an error. In revisions with sessions, an error with a request id is an ordinary
/// response (200).
pub(super) fn status_of(code: Code, is_stateless: bool) -> StatusCode {
    match code {
        Code::Parse
        | Code::InvalidRequest
        | Code::HeaderMismatch
        | Code::MissingCapability
        | Code::UnsupportedVersion => StatusCode::BAD_REQUEST,
        _ if !is_stateless => StatusCode::OK,
        Code::MethodNotFound => StatusCode::NOT_FOUND,
        Code::InvalidParams => StatusCode::BAD_REQUEST,
        Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Code::Overloaded => StatusCode::SERVICE_UNAVAILABLE,
        Code::Cancelled | Code::NoResource => StatusCode::OK,
    }
}

/// Adds the trace id of a call, which may come from its message.
pub(super) fn with_trace_id(mut response: Response, trace_id: &str) -> Response {
    if let Ok(value) = HeaderValue::from_str(trace_id) {
        response.headers_mut().insert(TRACE_ID, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_gets_events_only_if_it_says_that_it_takes_them() {
        let of = |accept: Option<&str>| {
            let mut headers = HeaderMap::new();
            accept.into_iter().for_each(|it| drop(headers.insert(header::ACCEPT, it.parse().unwrap())));
            let accepts = Accepts::from_headers(&headers);
            (accepts.json, accepts.events)
        };
        for (accept, expected) in [
            (None, (true, false)),
            (Some("*/*"), (true, false)),
            (Some("application/json, text/event-stream"), (true, true)),
            (Some("Application/JSON;q=0.5,TEXT/event-stream"), (true, true)),
            (Some("text/event-stream"), (false, true)),
            (Some("text/html"), (false, false)),
        ] {
            assert_eq!(of(accept), expected, "{accept:?}");
        }
    }
}
