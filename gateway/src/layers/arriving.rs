//! Bounds how long a request's body may take to arrive, and how much of all bodies is held meanwhile. Streams of calls may
//! take as long as they like: their bound is that of each call.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;

use crate::memory::{Memory, Share};

/// How long a body may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Methods whose request is a stream.
const STREAMS: [&str; 3] = [
    "/openskill.v1.SkillService/InvokeMany",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

pub(crate) async fn arriving(State(memory): State<Memory>, request: Request, next: Next) -> Response {
    if STREAMS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let over = Box::pin(tokio::time::sleep(LIMIT));
    let limited = request.map(|body| Body::new(Limited { body, over, share: memory.share() }));
    next.run(limited).await
}

/// Why a body is not read to its end.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error("the body took longer than {} s to arrive", LIMIT.as_secs())]
    TooSlow,
    #[error("the gateway holds too many bodies: try again later")]
    TooMuch,
}

/// A body on its way in. Whoever reads it drops it when it is whole.
struct Limited {
    body: Body,
    over: Pin<Box<Sleep>>,
    share: Share,
}

impl http_body::Body for Limited {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            let length = frame.as_ref().and_then(|it| it.as_ref().ok()?.data_ref()).map_or(0, Bytes::len);
            if !self.share.add(length) {
                return Poll::Ready(Some(Err(Refused::TooMuch.into())));
            }
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        ready!(self.over.as_mut().poll(context));
        Poll::Ready(Some(Err(Refused::TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
