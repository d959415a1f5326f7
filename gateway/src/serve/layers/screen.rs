//! Refuses requests that must not be served: their heads are ambiguous, or they come from web pages of other sites.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::uri::Authority;
use http::{Extensions, Request, Response};
use tower::{Layer, Service};

use super::{head, origin};

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unwelcome {
    /// Its head can be read in two ways.
    Malformed(&'static str),
    /// It comes from a web page of another site.
    OtherSite,
}

/// Answers such requests with `refuse`, and passes on the rest.
#[derive(Debug)]
pub(crate) struct ScreenLayer<R> {
    /// Whether the listener's address is a loopback address.
    pub(crate) is_loopback: bool,
    /// The answer to a request that is refused.
    pub(crate) refuse: fn(Unwelcome, &Extensions) -> Response<R>,
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
        *self
    }
}

impl<R> Copy for ScreenLayer<R> {}

impl<S: Clone, R> Clone for ScreenService<S, R> {
    fn clone(&self) -> Self {
        Self { layer: self.layer, inner: self.inner.clone() }
    }
}

impl<S, R> Layer<S> for ScreenLayer<R> {
    type Service = ScreenService<S, R>;

    fn layer(&self, inner: S) -> ScreenService<S, R> {
        ScreenService { layer: *self, inner }
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
        match screen(&request, self.layer.is_loopback) {
            Ok(()) => Either::Left(self.inner.call(request)),
            Err(unwelcome) => Either::Right(ready(Ok((self.layer.refuse)(unwelcome, request.extensions())))),
        }
    }
}

fn screen<B>(request: &Request<B>, is_loopback: bool) -> Result<(), Unwelcome> {
    let (uri, headers) = (request.uri(), request.headers());
    if let Some(fault) = head::fault(request.version(), uri, headers) {
        return Err(Unwelcome::Malformed(fault));
    }
    let authority = uri.authority().map(Authority::as_str);
    if origin::is_welcome(headers, authority, is_loopback) { Ok(()) } else { Err(Unwelcome::OtherSite) }
}
