//! Reads the ids a request runs under, and sends the caller's back on every answer.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::{HeaderMap, HeaderValue};
use openskill_proto::metadata::{TRACE_ID, TRACEPARENT, TRACESTATE};
use openskill_proto::trace::Trace;

pub(crate) async fn trace(mut request: Request, next: Next) -> Response {
    let trace = read(request.headers());
    let id = HeaderValue::from_str(&trace.id);
    request.extensions_mut().insert(trace);
    let mut response = next.run(request).await;
    if let Ok(id) = id {
        response.headers_mut().insert(TRACE_ID, id);
    }
    response
}

fn read(headers: &HeaderMap) -> Trace {
    let header = |name| headers.get(name).map(HeaderValue::as_bytes);
    Trace::from_headers(header(TRACE_ID), header(TRACEPARENT), header(TRACESTATE))
}
