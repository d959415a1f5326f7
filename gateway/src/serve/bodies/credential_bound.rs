//! A stream that ends when the key or token of its request does. Its work is dropped, and a last frame states the
//! reason.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::BoxError;
use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};

use crate::identity::identified::CredentialWatch;

/// The error of a stream that can't send a last frame.
#[derive(Debug, thiserror::Error)]
#[error("the key or token of this stream was revoked or has expired")]
struct CredentialEnded;

/// A body that ends when a credential is revoked or expires.
pub(crate) struct CredentialBound<B> {
    /// None after the end.
    body: Option<B>,
    watch: CredentialWatch,
    last: Option<Frame<Bytes>>,
}

impl<B> CredentialBound<B> {
    /// `last` replaces the rest of the body when the credential ends. If None, the body fails with an error, so
    /// that its client does not mistake it for complete.
    pub(crate) fn new(body: B, watch: CredentialWatch, last: Option<Frame<Bytes>>) -> Self {
        Self { body: Some(body), watch, last }
    }
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for CredentialBound<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = &mut *self;
        // Check first, so that even a stream that always has data ends.
        if this.body.is_some() && this.watch.poll_end(context).is_ready() {
            this.body = None;
            return Poll::Ready(Some(this.last.take().ok_or_else(|| CredentialEnded.into())));
        }
        match &mut this.body {
            Some(body) => Pin::new(body).poll_frame(context).map_err(Into::into),
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
    use std::sync::Arc;
    use std::time::Duration;

    use futures_util::stream;
    use http_body_util::{BodyExt as _, StreamBody};
    use openskill_proto::timestamp::Timestamp;
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::identity::identified::Identified;

    fn watch(ended: &CancellationToken, expires: Option<Timestamp>) -> CredentialWatch {
        let account = Arc::clone(&Identified::nobody().account);
        let (credential, ended) = (Box::from("k"), ended.clone());
        CredentialWatch::new(Arc::new(Identified { credential, account, ended, expires, scopes: None }))
    }

    fn frame(text: &'static str) -> Frame<Bytes> {
        Frame::data(Bytes::from_static(text.as_bytes()))
    }

    #[tokio::test]
    async fn a_stream_that_never_pauses_ends_with_its_key_and_says_why() {
        let endless = StreamBody::new(stream::repeat_with(|| Ok::<_, BoxError>(frame("more"))));
        let ended = CancellationToken::new();
        let mut body = CredentialBound::new(endless, watch(&ended, None), Some(frame("last")));
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
            std::future::pending::<Result<Frame<Bytes>, BoxError>>().await
        }));
        let ended = CancellationToken::new();
        let mut body = CredentialBound::new(Box::pin(waits), watch(&ended, None), Some(frame("last")));
        let reading = tokio::spawn(async move { body.frame().await.unwrap().unwrap().into_data().unwrap() });
        tokio::task::yield_now().await;
        ended.cancel();
        assert_eq!(reading.await.unwrap(), "last");
        assert!(is_held.recv().await.is_none(), "what it ran is dropped");
    }

    #[tokio::test]
    async fn a_stream_ends_when_its_time_is_over() {
        let waits = StreamBody::new(stream::pending::<Result<Frame<Bytes>, BoxError>>());
        let left = Duration::from_millis(50);
        let begun = tokio::time::Instant::now();
        let expires = Timestamp(Timestamp::now().0 + 50_000);
        let mut body =
            CredentialBound::new(Box::pin(waits), watch(&CancellationToken::new(), Some(expires)), Some(frame("last")));
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "last");
        assert!(begun.elapsed() >= left && body.frame().await.is_none());
    }

    #[tokio::test]
    async fn a_stream_that_can_not_say_why_it_ends_breaks_off() {
        let waits = StreamBody::new(stream::pending::<Result<Frame<Bytes>, BoxError>>());
        let ended = CancellationToken::new();
        let mut body = CredentialBound::new(Box::pin(waits), watch(&ended, None), None);
        ended.cancel();
        assert!(body.frame().await.unwrap().is_err(), "a client must not take what it has for the whole");
        assert!(body.frame().await.is_none());
    }
}
