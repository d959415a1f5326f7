//! Keeps a connection from counting as idle while a request is in flight: from its head to the last byte of its response.

use std::task::{Context, Poll};

use http::{Request, Response};
use tower::Service;

use super::roster::{Busy, Connected};
use crate::serve::bodies::guarded::{Guarded, GuardedFuture};

/// The service of one connection.
#[derive(Debug, Clone)]
pub(super) struct BusyService<S> {
    pub(super) inner: S,
    pub(super) connected: Connected,
}

impl<S, Q, B> Service<Request<Q>> for BusyService<S>
where
    S: Service<Request<Q>, Response = Response<B>>,
{
    type Response = Response<Guarded<B, Busy>>;
    type Error = S::Error;
    type Future = GuardedFuture<S::Future, Busy>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let busy = self.connected.begin();
        GuardedFuture::new(self.inner.call(request), busy)
    }
}
