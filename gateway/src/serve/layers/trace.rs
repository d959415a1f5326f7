//! Reads the ids a request runs under, and returns its trace id on the answer.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderValue, Request, Response};
use openskill_proto::metadata::{TRACE_ID, TRACEPARENT, TRACESTATE};
use openskill_proto::trace::Trace;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

/// Puts a [`Trace`] into each request's extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TraceLayer;

/// See [`TraceLayer`].
#[derive(Debug, Clone)]
pub(crate) struct TraceService<S>(S);

impl<S> Layer<S> for TraceLayer {
    type Service = TraceService<S>;

    fn layer(&self, inner: S) -> TraceService<S> {
        TraceService(inner)
    }
}

impl<S, B, R> Service<Request<B>> for TraceService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let trace = read(request.headers());
        let trace_id = HeaderValue::from_str(&trace.id).ok();
        request.extensions_mut().insert(trace);
        ResponseFuture { response: self.0.call(request), trace_id }
    }
}

fn read(headers: &HeaderMap) -> Trace {
    let header = |name| headers.get(name).map(HeaderValue::as_bytes);
    Trace::from_headers(header(TRACE_ID), header(TRACEPARENT), header(TRACESTATE))
}

pin_project! {
    /// Adds the trace id to a response.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        trace_id: Option<HeaderValue>,
    }
}

impl<F, R, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<R>, E>>,
{
    type Output = Result<Response<R>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = ready!(this.response.poll(context))?;
        if let Some(trace_id) = this.trace_id.take() {
            response.headers_mut().insert(TRACE_ID, trace_id);
        }
        Poll::Ready(Ok(response))
    }
}
