//! The spans of requests, by the semantic conventions for HTTP clients. The path and the query are left out: templates put
//! arguments and secrets there.

use openskill_proto::v1::ErrorCode;
use openskill_trace::KeyValue;
use openskill_trace::call::Request as Open;
use reqwest::header::HeaderValue;

use super::request::Request;
use crate::runner::Invocation;

/// Begins the span of a request. `resent` counts the redirects before it.
pub(super) fn begin(invocation: &Invocation, request: &Request, resent: u8) -> Option<Open> {
    // Known methods are words of ours; others are as the manifest has them.
    let method = request.method.as_str().to_owned();
    let mut attributes = vec![
        KeyValue::new("http.request.method", method.clone()),
        KeyValue::new("url.scheme", request.url.scheme().to_owned()),
    ];
    attributes.extend(request.url.host_str().map(|host| KeyValue::new("server.address", host.to_owned())));
    let port = request.url.port_or_known_default();
    attributes.extend(port.map(|port| KeyValue::new("server.port", i64::from(port))));
    if resent > 0 {
        attributes.push(KeyValue::new("http.request.resend_count", i64::from(resent)));
    }
    invocation.trace.request(method, attributes, invocation.deadline)
}

/// The `traceparent` that makes the server's spans children of this one.
pub(super) fn header(span: Option<&Open>) -> Option<HeaderValue> {
    HeaderValue::from_str(&span?.context().to_traceparent()).ok()
}

/// The server answered with this status. `failure`: the request failed all the same.
pub(super) fn end(span: Option<Open>, status: u16, failure: Option<ErrorCode>) {
    let error = (status >= 400).then(|| status.to_string().into());
    let error = error.or_else(|| failure.map(|code| code.as_str_name().into()));
    if let Some(span) = span {
        span.end([KeyValue::new("http.response.status_code", i64::from(status))], error);
    }
}

/// There is no answer.
pub(super) fn fail(span: Option<Open>, code: ErrorCode) {
    if let Some(span) = span {
        span.end([], Some(code.as_str_name().into()));
    }
}
