//! Reads the caller's timeout. A malformed header counts as absent: the default applies, never an unlimited
//! deadline.

use std::time::Duration;

use http::HeaderMap;
use openskill_proto::deadline::{parse_grpc_timeout, parse_timeout_ms};
use openskill_proto::metadata::{GRPC_TIMEOUT, TIMEOUT_MS};

/// The timeout from a request's headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeout(pub(crate) Duration);

/// Returns the shorter timeout of both headers.
pub(crate) fn read(headers: &HeaderMap) -> Option<Timeout> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let grpc = header(GRPC_TIMEOUT).and_then(parse_grpc_timeout);
    let rest = header(TIMEOUT_MS).and_then(parse_timeout_ms);
    [grpc, rest].into_iter().flatten().min().map(Timeout)
}
