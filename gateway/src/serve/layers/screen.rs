//! Refuses requests that must not be served: their heads are ambiguous, or they come from web pages of other sites.

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
pub(crate) enum Unwelcome {
    /// Its head can be read in two ways.
    Malformed(&'static str),
    /// It comes from another site, or may come from there.
    Foreign(Foreign),
}

/// Answers such requests with `refuse`, and passes on the rest.
#[derive(Debug)]
pub(crate) struct ScreenLayer<R> {
    /// Whether the listener's address is a loopback address.
    pub(crate) is_loopback: bool,
    /// What an operator allows.
    pub(crate) sites: Option<Arc<Sites>>,
    /// The answer to a request that is refused.
    pub(crate) refuse: fn(Unwelcome, &HeaderMap, &Extensions) -> Response<R>,
}

/// See [`ScreenLayer`].
#[derive(Debug)]
pub(crate) struct ScreenService<S, R> {
    layer: ScreenLayer<R>,
    inner: S,
}

// Not derived: that would ask for `R: Clone`.
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
            Some(unwelcome) => Either::Right(ready(Ok(refuse(unwelcome, request.headers(), request.extensions())))),
        }
    }
}

fn screen<B>(request: &Request<B>, is_loopback: bool, sites: Option<&Sites>) -> Option<Unwelcome> {
    let (uri, headers) = (request.uri(), request.headers());
    head::fault(request.version(), uri, headers).map(Unwelcome::Malformed).or_else(|| {
        let authority = uri.authority().map(Authority::as_str);
        origin::fault(headers, authority, is_loopback, sites).map(Unwelcome::Foreign)
    })
}
