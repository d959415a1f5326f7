//! Bounds bodies in both directions. gRPC clients may compress messages with gzip, and then get compressed
//! responses.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{Request, Response};
use openskill_identity::shares::Pool;
use openskill_proto::trace::Trace;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::encoding::{Encoding, is_grpc};
use super::operation;
use crate::call::operation::Streaming;
use crate::serve::bodies::inbound::Inbound;
use crate::serve::bodies::outbound::{Outbound, ResponseBody, ResponseOwner};

/// Wraps request bodies into [`Inbound`], and response bodies into [`Outbound`].
#[derive(Debug, Clone)]
pub(crate) struct BodiesLayer {
    /// Accounts for request bodies.
    pub(crate) inbound: Pool,
    /// Accounts for response bodies.
    pub(crate) outbound: Pool,
    /// Builds the response that replaces one that exceeds its principal's share.
    pub(crate) refuse: fn(&RefusalFormat) -> Response<ResponseBody>,
}

/// The format in which a response that does not fit is refused.
#[derive(Debug)]
pub(crate) enum RefusalFormat {
    Grpc,
    /// Contains the trace id.
    Rest(String),
}

impl RefusalFormat {
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
    S: Service<Request<Inbound<B>>, Response = Response<ResponseBody>>,
{
    type Response = Response<Outbound>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        // In a stream, each message has its own timeout.
        let is_stream = operation(request.extensions()).is_some_and(|it| it.streaming == Streaming::Both);
        let encoding = Encoding::take(&mut request);
        let format = RefusalFormat::new(&request);
        let request = request.map(|body| Inbound::new(body, is_stream, &self.layer.inbound));
        let request = if let Encoding::Gzip { .. } = encoding { request.map(Inbound::with_gzip) } else { request };
        let (outbound, refuse) = (self.layer.outbound.clone(), self.layer.refuse);
        ResponseFuture { response: self.inner.call(request), outbound, encoding, format, refuse }
    }
}

pin_project! {
    /// Bounds the body of a response.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        outbound: Pool,
        encoding: Encoding,
        format: RefusalFormat,
        refuse: fn(&RefusalFormat) -> Response<ResponseBody>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, E>>,
{
    type Output = Result<Response<Outbound>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.response.poll(context))?;
        let is_deflated = this.encoding.answer(response.headers_mut());
        let (owner, is_message) = (response.extensions_mut().remove::<ResponseOwner>(), is_grpc(response.headers()));
        let (head, body) = response.into_parts();
        let body = Outbound::new(body, this.outbound, owner);
        let begun = if is_deflated { body.with_gzip() } else { body }.begin(is_message);
        Poll::Ready(Ok(match begun {
            Ok(body) => Response::from_parts(head, body),
            Err(_) => (this.refuse)(this.format).map(|body| Outbound::new(body, this.outbound, None)),
        }))
    }
}
