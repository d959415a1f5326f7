//! A body with a guard that is dropped once the response is sent or dropped. Counts responses in flight.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use http::Response;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

pin_project! {
    /// A body that keeps a guard until it is dropped.
    pub(crate) struct Guarded<B, G> {
        #[pin]
        body: B,
        guard: G,
    }
}

impl<B, G> Guarded<B, G> {
    pub(crate) fn new(body: B, guard: G) -> Self {
        Self { body, guard }
    }

    pub(crate) fn inner(&self) -> &B {
        &self.body
    }
}

impl<B: Body, G> Body for Guarded<B, G> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, Self::Error>>> {
        self.project().body.poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

pin_project! {
    /// A future that moves its guard to the response's body.
    pub(crate) struct GuardedFuture<F, G> {
        #[pin]
        response: F,
        guard: Option<G>,
    }
}

impl<F, G> GuardedFuture<F, G> {
    pub(crate) fn new(response: F, guard: G) -> Self {
        Self { response, guard: Some(guard) }
    }
}

impl<F, B, E, G> Future for GuardedFuture<F, G>
where
    F: Future<Output = Result<Response<B>, E>>,
{
    type Output = Result<Response<Guarded<B, G>>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = ready!(this.response.poll(context))?;
        match this.guard.take() {
            Some(guard) => Poll::Ready(Ok(response.map(|body| Guarded::new(body, guard)))),
            // The future was polled after completion.
            None => Poll::Pending,
        }
    }
}
