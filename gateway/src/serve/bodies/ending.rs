//! A stream that ends with the key that it was begun with: what it runs is dropped, and one last frame says why.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio_util::sync::CancellationToken;

/// A body until its key ends.
pub(crate) struct Ending<B> {
    /// None after the end.
    body: Option<B>,
    ended: Pin<Box<dyn Future<Output = ()> + Send>>,
    last: Option<Frame<Bytes>>,
}

impl<B> Ending<B> {
    /// `last`: what the client gets instead of the rest, once `ended` is cancelled or so much time has passed.
    pub(crate) fn new(body: B, ended: CancellationToken, left: Option<Duration>, last: Frame<Bytes>) -> Self {
        let ended = async move {
            match left {
                None => ended.cancelled().await,
                Some(left) => drop(tokio::time::timeout(left, ended.cancelled()).await),
            }
        };
        Self { body: Some(body), ended: Box::pin(ended), last: Some(last) }
    }

    /// The body. None after its end.
    pub(crate) fn inner(&self) -> Option<&B> {
        self.body.as_ref()
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Ending<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        // First: a stream that always has something to send ends too.
        if this.body.is_some() && this.ended.as_mut().poll(context).is_ready() {
            this.body = None;
            return Poll::Ready(this.last.take().map(Ok));
        }
        match &mut this.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use futures_util::stream;
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    fn frame(text: &'static str) -> Frame<Bytes> {
        Frame::data(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn a_stream_that_never_pauses_ends_with_its_key_and_says_why() {
        let endless = StreamBody::new(stream::repeat_with(|| Ok::<_, Infallible>(frame("more"))));
        let ended = CancellationToken::new();
        let mut body = Ending::new(endless, ended.clone(), None, frame("last"));
        let mut next = async || body.frame().await.map(|it| it.unwrap().into_data().unwrap());
        assert_eq!(next().await.unwrap(), "more");
        ended.cancel();
        assert_eq!(next().await.unwrap(), "last");
        assert!(next().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_waits_is_woken_and_what_it_holds_is_dropped() {
        let (held, mut is_held) = tokio::sync::mpsc::channel::<()>(1);
        let waits = StreamBody::new(stream::once(async move {
            let _held = held;
            std::future::pending::<Result<Frame<Bytes>, Infallible>>().await
        }));
        let ended = CancellationToken::new();
        let mut body = Ending::new(Box::pin(waits), ended.clone(), None, frame("last"));
        let reading = tokio::spawn(async move { body.frame().await.unwrap().unwrap().into_data().unwrap() });
        tokio::task::yield_now().await;
        ended.cancel();
        assert_eq!(reading.await.unwrap(), "last");
        assert!(is_held.recv().await.is_none(), "what it ran is dropped");
    }

    #[tokio::test]
    async fn a_stream_ends_when_its_time_is_over() {
        let waits = StreamBody::new(stream::pending::<Result<Frame<Bytes>, Infallible>>());
        let left = Duration::from_millis(50);
        let mut body = Ending::new(Box::pin(waits), CancellationToken::new(), Some(left), frame("last"));
        let begun = tokio::time::Instant::now();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "last");
        assert!(begun.elapsed() >= left && body.frame().await.is_none());
    }
}
