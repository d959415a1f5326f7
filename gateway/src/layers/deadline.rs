//! Reads how long the caller waits. A malformed header counts as absent: the default holds, never "none".

use std::time::Duration;

use http::HeaderMap;
use openskill_proto::deadline::{parse_grpc_timeout, parse_timeout_ms};
use openskill_proto::metadata::{GRPC_TIMEOUT, TIMEOUT_MS};

/// What the caller's headers allow.
pub(crate) fn read(headers: &HeaderMap) -> Option<Duration> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let grpc = header(GRPC_TIMEOUT).and_then(parse_grpc_timeout);
    let rest = header(TIMEOUT_MS).and_then(parse_timeout_ms);
    [grpc, rest].into_iter().flatten().min()
}
