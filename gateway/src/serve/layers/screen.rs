//! Refuses requests with ambiguous heads, and requests from web pages of other sites.

use std::future::{Ready, ready};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::uri::Authority;
use http::{Extensions, HeaderMap, Request, Response};
use tower::{Layer, Service};

use super::head;
use super::origin::{self, Foreign};
use super::sites::Sites;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RejectReason {
    /// Its head is ambiguous. Contains the reason.
    Malformed(&'static str),
    /// It comes, or may come, from another site.
    Foreign(Foreign),
}

/// Refuses ambiguous or cross-site requests, and passes all others on.
#[derive(Debug)]
pub(crate) struct ScreenLayer<R> {
    /// Whether the listener has a loopback address.
    pub(crate) is_loopback: bool,
    /// The sites that the operator allows.
    pub(crate) sites: Option<Arc<Sites>>,
    /// Builds the response to a refused request.
    pub(crate) refuse: fn(RejectReason, &HeaderMap, &Extensions) -> Response<R>,
}

/// See [`ScreenLayer`].
#[derive(Debug)]
pub(crate) struct ScreenService<S, R> {
    layer: ScreenLayer<R>,
    inner: S,
}

// Not derived, because that would require `R: Clone`.
impl<R> Clone for ScreenLayer<R> {
    fn clone(&self) -> Self {
        Self { is_loopback: self.is_loopback, sites: self.sites.clone(), refuse: self.refuse }
    }
}

impl<S: Clone, R> Clone for ScreenService<S, R> {
    fn clone(&self) -> Self {
        Self { layer: self.layer.clone(), inner: self.inner.clone() }
    }
}

impl<S, R> Layer<S> for ScreenLayer<R> {
    type Service = ScreenService<S, R>;

    fn layer(&self, inner: S) -> ScreenService<S, R> {
        ScreenService { layer: self.clone(), inner }
    }
}

impl<S, B, R> Service<Request<B>> for ScreenService<S, R>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<R>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let ScreenLayer { is_loopback, sites, refuse } = &self.layer;
        match screen(&request, *is_loopback, sites.as_deref()) {
            None => Either::Left(self.inner.call(request)),
            Some(reason) => Either::Right(ready(Ok(refuse(reason, request.headers(), request.extensions())))),
        }
    }
}

fn screen<B>(request: &Request<B>, is_loopback: bool, sites: Option<&Sites>) -> Option<RejectReason> {
    let (uri, headers) = (request.uri(), request.headers());
    head::fault(request.version(), uri, headers).map(RejectReason::Malformed).or_else(|| {
        let authority = uri.authority().map(Authority::as_str);
        origin::fault(headers, authority, is_loopback, sites).map(RejectReason::Foreign)
    })
}
