//! Bounds each body in both directions. Messages of gRPC clients may come compressed with gzip, and are answered in kind.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use openskill_identity::shares::Pool;
use openskill_proto::trace::Trace;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::encoding::{Encoding, is_grpc};
use crate::serve::bodies::inbound::Inbound;
use crate::serve::bodies::outbound::{Answer, AnswerOwner, Outbound};

/// Wraps request bodies into [`Inbound`], and answers into [`Outbound`].
#[derive(Debug, Clone)]
pub(crate) struct BodiesLayer {
    /// What request bodies hold.
    pub(crate) inbound: Pool,
    /// What answers hold.
    pub(crate) outbound: Pool,
    /// Whether the request to a path is a stream of messages, each of which has its own time to arrive.
    pub(crate) is_client_streaming: fn(&str) -> bool,
    /// The answer in place of one that its principal has no room for.
    pub(crate) refuse: fn(&Refused) -> Response<Answer>,
}

/// A request whose answer does not fit.
#[derive(Debug)]
pub(crate) enum Refused {
    Grpc,
    /// With the id of its trace.
    Rest(String),
}

impl Refused {
    fn new<B>(request: &Request<B>) -> Self {
        match is_grpc(request.headers()) {
            true => Self::Grpc,
            false => Self::Rest(request.extensions().get::<Trace>().map(|it| it.id.clone()).unwrap_or_default()),
        }
    }
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
        let refused = Refused::new(&request);
        let request = request.map(|body| Inbound::new(body, is_stream, &self.layer.inbound));
        let request = if let Encoding::Gzip { .. } = encoding { request.map(Inbound::inflated) } else { request };
        let (outbound, refuse) = (self.layer.outbound.clone(), self.layer.refuse);
        ResponseFuture { response: self.inner.call(request), outbound, encoding, refused, refuse }
    }
}

pin_project! {
    /// Bounds an answer's body.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        outbound: Pool,
        encoding: Encoding,
        refused: Refused,
        refuse: fn(&Refused) -> Response<Answer>,
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
        let (owner, is_message) = (response.extensions_mut().remove::<AnswerOwner>(), is_grpc(response.headers()));
        let (head, body) = response.into_parts();
        let body = Outbound::new(body, this.outbound, owner);
        let begun = if is_deflated { body.deflated() } else { body }.begin(is_message);
        Poll::Ready(Ok(match begun {
            Ok(body) => Response::from_parts(head, body),
            Err(_) => (this.refuse)(this.refused).map(|body| Outbound::new(body, this.outbound, None)),
        }))
    }
}
