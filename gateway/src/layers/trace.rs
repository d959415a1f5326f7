//! Reads the ids a request runs under.

use http::{HeaderMap, HeaderValue};
use openskill_proto::metadata::{TRACE_ID, TRACEPARENT, TRACESTATE};
use openskill_proto::trace::Trace;

pub(crate) fn read(headers: &HeaderMap) -> Trace {
    let header = |name| headers.get(name).map(HeaderValue::as_bytes);
    Trace::from_headers(header(TRACE_ID), header(TRACEPARENT), header(TRACESTATE))
}
