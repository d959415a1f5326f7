//! Reads the trace headers and the operation of a request, and adds its trace id to the response.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::{HeaderMap, HeaderValue, Method, Request, Response};
use openskill_proto::metadata::{TRACE_ID, TRACEPARENT, TRACESTATE};
use openskill_proto::trace::Trace;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::call::operation::Operation;

/// Puts a [`Trace`], and the [`Operation`] if known, into each request's extensions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TraceLayer {
    /// Finds the operation with this method and path.
    pub(crate) find: fn(&Method, &str) -> Option<&'static Operation>,
}

/// See [`TraceLayer`].
#[derive(Debug, Clone)]
pub(crate) struct TraceService<S> {
    layer: TraceLayer,
    inner: S,
}

impl<S> Layer<S> for TraceLayer {
    type Service = TraceService<S>;

    fn layer(&self, inner: S) -> TraceService<S> {
        TraceService { layer: *self, inner }
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
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let trace = read(request.headers());
        let trace_id = HeaderValue::from_str(&trace.id).ok();
        request.extensions_mut().insert(trace);
        if let Some(operation) = (self.layer.find)(request.method(), request.uri().path()) {
            request.extensions_mut().insert(operation);
        }
        ResponseFuture { response: self.inner.call(request), trace_id }
    }
}

/// Reads the trace headers. Ignores repeated ids, because a proxy may have used another one. Repeated `tracestate`
/// headers form one list.
fn read(headers: &HeaderMap) -> Trace {
    let all = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let only = |name| all(name).next().map(|first| (first, all(name).nth(1).is_some()));
    // A repeated trace id is replaced and reported, like a malformed one.
    let trace_id = only(TRACE_ID).map(|(id, is_repeated)| if is_repeated { b"" } else { id });
    let parent = only(TRACEPARENT).and_then(|(parent, is_repeated)| (!is_repeated).then_some(parent));
    let states: Vec<_> = all(TRACESTATE).collect();
    match states.as_slice() {
        [] => Trace::from_headers(trace_id, parent, None),
        [state] => Trace::from_headers(trace_id, parent, Some(state)),
        several => Trace::from_headers(trace_id, parent, Some(&several.join(&b','))),
    }
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
            // Not overwritten: if a call's message continues another trace, the id is already set.
            response.headers_mut().entry(TRACE_ID).or_insert(trace_id);
        }
        Poll::Ready(Ok(response))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn of(given: &[(&'static str, &str)]) -> Trace {
        let mut headers = HeaderMap::new();
        for (name, value) in given {
            headers.append(*name, value.parse().unwrap());
        }
        read(&headers)
    }

    #[test]
    fn one_of_each_is_used() {
        let trace = of(&[(TRACE_ID, "mine"), (TRACEPARENT, PARENT), (TRACESTATE, "a=1")]);
        assert_eq!((trace.id.as_str(), trace.state.as_str()), ("mine", "a=1"));
        assert_eq!(trace.context.to_traceparent(), PARENT);
    }

    #[test]
    fn of_several_parents_none_is_used_and_their_state_neither() {
        let trace = of(&[(TRACEPARENT, PARENT), (TRACEPARENT, PARENT), (TRACESTATE, "a=1")]);
        assert!(!trace.has_parent && trace.context.to_traceparent() != PARENT);
        assert_eq!(trace.state, "");
    }

    #[test]
    fn of_several_trace_ids_none_is_used() {
        let trace = of(&[(TRACE_ID, "mine"), (TRACE_ID, "theirs")]);
        assert!(trace.replaced && trace.id.len() == 32);
    }

    #[test]
    fn several_headers_of_state_are_one_list() {
        let trace = of(&[(TRACEPARENT, PARENT), (TRACESTATE, "a=1"), (TRACESTATE, "b=2,c=3")]);
        assert_eq!(trace.state, "a=1,b=2,c=3");
        assert_eq!(of(&[(TRACEPARENT, PARENT), (TRACESTATE, "a=1"), (TRACESTATE, "a=2")]).state, "");
    }
}
