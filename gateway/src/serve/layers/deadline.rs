//! Reads the caller's timeout. A malformed header counts as absent: the default applies, never an unlimited
//! deadline.

use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderMap, Request};
use openskill_proto::deadline::{parse_grpc_timeout, parse_timeout_ms};
use openskill_proto::metadata::{GRPC_TIMEOUT, TIMEOUT_MS};
use tower::{Layer, Service};

/// Puts a [`Timeout`] into the extensions of each request whose headers have one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DeadlineLayer;

/// See [`DeadlineLayer`].
#[derive(Debug, Clone)]
pub(crate) struct DeadlineService<S>(S);

/// The timeout from a request's headers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timeout(pub(crate) Duration);

impl<S> Layer<S> for DeadlineLayer {
    type Service = DeadlineService<S>;

    fn layer(&self, inner: S) -> DeadlineService<S> {
        DeadlineService(inner)
    }
}

impl<S, B> Service<Request<B>> for DeadlineService<S>
where
    S: Service<Request<B>>,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if let Some(timeout) = read(request.headers()) {
            request.extensions_mut().insert(Timeout(timeout));
        }
        self.0.call(request)
    }
}

/// Returns the shorter timeout of both headers.
fn read(headers: &HeaderMap) -> Option<Duration> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let grpc = header(GRPC_TIMEOUT).and_then(parse_grpc_timeout);
    let rest = header(TIMEOUT_MS).and_then(parse_timeout_ms);
    [grpc, rest].into_iter().flatten().min()
}
