//! Request spans, according to the semantic conventions for HTTP clients. They omit the path and query, which may
//! contain arguments and secrets.

use openskill_proto::v1::ErrorCode;
use openskill_trace::KeyValue;
use openskill_trace::call::ClientSpan;
use reqwest::header::HeaderValue;

use super::request::Request;
use crate::runner::Invocation;

/// Begins a request's span. `resent`: the number of redirects before it.
pub(super) fn begin(invocation: &Invocation, request: &Request, resent: u8) -> Option<ClientSpan> {
    // Known methods are constants. Others are copied from the manifest.
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

/// Returns the `traceparent` that makes the server's spans children of this one.
pub(super) fn header(span: Option<&ClientSpan>) -> Option<HeaderValue> {
    HeaderValue::from_str(&span?.context().to_traceparent()).ok()
}

/// Ends the span of a request with a response. `failure`: the error if the call failed despite the response.
pub(super) fn end(span: Option<ClientSpan>, status: u16, failure: Option<ErrorCode>) {
    let error = (status >= 400).then(|| status.to_string().into());
    let error = error.or_else(|| failure.map(|code| code.as_str_name().into()));
    if let Some(span) = span {
        span.end([KeyValue::new("http.response.status_code", i64::from(status))], error);
    }
}

/// Ends the span of a request without a response.
pub(super) fn fail(span: Option<ClientSpan>, code: ErrorCode) {
    if let Some(span) = span {
        span.end([], Some(code.as_str_name().into()));
    }
}
