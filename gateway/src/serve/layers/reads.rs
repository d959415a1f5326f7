//! Bounds the responses in flight that are no calls: pages, the catalog, artifacts, metrics. Clients that do not read them
//! would otherwise fill the gateway's memory and take its time from calls.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as poll_ready};

use futures_util::future::Either;
use http::{Extensions, HeaderMap, Method, Request, Response};
use pin_project_lite::pin_project;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::{Layer, Service};

use crate::serve::bodies::guarded::Guarded;
use crate::serve::bodies::outbound::Answer;

/// A group of reads. Each has a bound of its own, so that readers of one do not shut out those of another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Pages for people, and what they load.
    Page,
    /// The catalog, tools and artifacts.
    Catalog,
    /// What operators look at.
    Operations,
    /// Recorded calls, and those who follow them.
    Traces,
    /// Conversations with the agent, and those who watch them.
    Conversations,
}

impl Read {
    /// All groups, each at the place of its number.
    const ALL: [Self; 5] = [Self::Page, Self::Catalog, Self::Operations, Self::Traces, Self::Conversations];

    /// How many responses a listener has in flight.
    const fn bound(self) -> usize {
        match self {
            Self::Page | Self::Catalog => 64,
            Self::Operations | Self::Traces => 16,
            Self::Conversations => 256,
        }
    }
}

/// Answers reads past their bound with `refuse`.
#[derive(Debug, Clone)]
pub(crate) struct ReadsLayer {
    permits: [Arc<Semaphore>; Read::ALL.len()],
    which: fn(&Method, &str) -> Option<Read>,
    refuse: fn(&HeaderMap, &Extensions) -> Response<Answer>,
}

/// See [`ReadsLayer`].
#[derive(Debug, Clone)]
pub(crate) struct ReadsService<S> {
    layer: ReadsLayer,
    inner: S,
}

impl ReadsLayer {
    /// `which`: which requests are reads. `refuse`: the answer to one past the bound.
    pub(crate) fn new(
        which: fn(&Method, &str) -> Option<Read>,
        refuse: fn(&HeaderMap, &Extensions) -> Response<Answer>,
    ) -> Self {
        Self { permits: Read::ALL.map(|it| Arc::new(Semaphore::new(it.bound()))), which, refuse }
    }
}

impl<S> Layer<S> for ReadsLayer {
    type Service = ReadsService<S>;

    fn layer(&self, inner: S) -> ReadsService<S> {
        ReadsService { layer: self.clone(), inner }
    }
}

impl<S, B> Service<Request<B>> for ReadsService<S>
where
    S: Service<Request<B>, Response = Response<Answer>>,
{
    type Response = Response<Answer>;
    type Error = S::Error;
    type Future = Either<ResponseFuture<S::Future>, Ready<Result<Response<Answer>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let read = (self.layer.which)(request.method(), request.uri().path());
        let permit = match read.map(|read| Arc::clone(&self.layer.permits[read as usize]).try_acquire_owned()) {
            None => None,
            Some(Ok(permit)) => Some(permit),
            Some(Err(_)) => {
                let refusal = (self.layer.refuse)(request.headers(), request.extensions());
                return Either::Right(ready(Ok(refusal)));
            }
        };
        Either::Left(ResponseFuture { response: self.inner.call(request), permit })
    }
}

pin_project! {
    /// Gives the permit, if there is one, to the response's body.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        permit: Option<OwnedSemaphorePermit>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Answer>, E>>,
{
    type Output = Result<Response<Answer>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = poll_ready!(this.response.poll(context))?;
        Poll::Ready(Ok(match this.permit.take() {
            Some(permit) => response.map(|body| Answer::Read(Box::new(Guarded::new(body, permit)))),
            None => response,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    fn service() -> impl Service<Request<()>, Response = Response<Answer>, Error = Infallible> {
        let answer = || Response::new(Answer::Rest(axum::body::Body::empty()));
        let which = |_: &Method, path: &str| (path == "/page").then_some(Read::Page);
        let refuse = |_: &HeaderMap, _: &Extensions| {
            let mut refusal = Response::new(Answer::Rest(axum::body::Body::empty()));
            *refusal.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
            refusal
        };
        ReadsLayer::new(which, refuse)
            .layer(tower::service_fn(move |_: Request<()>| ready(Ok::<_, Infallible>(answer()))))
    }

    #[tokio::test]
    async fn reads_past_the_bound_are_refused_until_others_are_sent() {
        let mut service = service();
        let mut ask = async |path: &str| service.call(Request::get(path).body(()).unwrap()).await.unwrap();
        let mut sending = Vec::new();
        for _ in 0..Read::Page.bound() {
            sending.push(ask("/page").await);
        }
        assert!(sending.iter().all(|it| it.status() == 200));
        assert_eq!(ask("/page").await.status(), 503);
        assert_eq!(ask("/other").await.status(), 200, "which is no read");
        sending.pop();
        assert_eq!(ask("/page").await.status(), 200);
    }
}
