//! Bounds each body in both directions. Messages of gRPC clients may come compressed with gzip, and are answered in kind.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::encoding::Encoding;
use crate::serve::bodies::inbound::Inbound;
use crate::serve::bodies::outbound::{Answer, Outbound};
use crate::state::memory::MemoryBudget;

/// Wraps request bodies into [`Inbound`], and answers into [`Outbound`].
#[derive(Debug, Clone)]
pub(crate) struct BodiesLayer {
    /// What request bodies hold.
    pub(crate) inbound: MemoryBudget,
    /// What answers hold.
    pub(crate) outbound: MemoryBudget,
    /// Whether the request to a path is a stream of messages, each of which has its own time to arrive.
    pub(crate) is_client_streaming: fn(&str) -> bool,
}

/// See [`BodiesLayer`].
#[derive(Debug, Clone)]
pub(crate) struct BodiesService<S> {
    layer: BodiesLayer,
    inner: S,
}

impl<S> Layer<S> for BodiesLayer {
    type Service = BodiesService<S>;

    fn layer(&self, inner: S) -> BodiesService<S> {
        BodiesService { layer: self.clone(), inner }
    }
}

impl<S, B> Service<Request<B>> for BodiesService<S>
where
    S: Service<Request<Inbound<B>>, Response = Response<Answer>>,
{
    type Response = Response<Outbound>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let is_stream = (self.layer.is_client_streaming)(request.uri().path());
        let encoding = Encoding::take(&mut request);
        let request = request.map(|body| Inbound::new(body, is_stream, &self.layer.inbound));
        let request = if let Encoding::Gzip { .. } = encoding { request.map(Inbound::inflated) } else { request };
        ResponseFuture { response: self.inner.call(request), budget: self.layer.outbound.clone(), encoding }
    }
}

pin_project! {
    /// Bounds an answer's body.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        budget: MemoryBudget,
        encoding: Encoding,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Answer>, E>>,
{
    type Output = Result<Response<Outbound>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.response.poll(context))?;
        let is_deflated = this.encoding.answer(response.headers_mut());
        let response = response.map(|body| Outbound::new(body, this.budget));
        Poll::Ready(Ok(if is_deflated { response.map(Outbound::deflated) } else { response }))
    }
}
