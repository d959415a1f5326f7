//! Reads how long the caller waits. A malformed header counts as absent: the default holds, never "none".

use std::time::Duration;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderMap;
use openskill_proto::deadline::{parse_grpc_timeout, parse_timeout_ms};
use openskill_proto::metadata::{GRPC_TIMEOUT, TIMEOUT_MS};

/// What the caller's headers allow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allowed(pub(crate) Option<Duration>);

pub(crate) async fn deadline(mut request: Request, next: Next) -> Response {
    let allowed = read(request.headers());
    request.extensions_mut().insert(allowed);
    next.run(request).await
}

fn read(headers: &HeaderMap) -> Allowed {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let grpc = header(GRPC_TIMEOUT).and_then(parse_grpc_timeout);
    let rest = header(TIMEOUT_MS).and_then(parse_timeout_ms);
    Allowed([grpc, rest].into_iter().flatten().min())
}
