//! Counts a connection's requests in flight, each from its head to the last byte of its response. A connection with
//! requests in flight is not idle.

use std::task::{Context, Poll};

use http::{Request, Response};
use tower::Service;

use super::limiter::{ConnectionHandle, InFlight};
use crate::serve::bodies::guarded::{Guarded, GuardedFuture};

/// Wraps the service of one connection, to count its requests.
#[derive(Debug, Clone)]
pub(super) struct InFlightService<S> {
    pub(super) inner: S,
    pub(super) connection: ConnectionHandle,
}

impl<S, Q, B> Service<Request<Q>> for InFlightService<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
{
    type Response = Response<Guarded<B, InFlight>>;
    type Error = S::Error;
    type Future = GuardedFuture<S::Future, InFlight>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let in_flight = self.connection.begin();
        GuardedFuture::new(self.inner.call(request), in_flight)
    }
}
