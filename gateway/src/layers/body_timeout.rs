//! Bounds how long a request's body may take to arrive. Streams of calls may take as long as they like: their bound is
//! that of each call.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Frame, SizeHint};
use tokio::time::Sleep;

/// How long a body may take.
const LIMIT: Duration = Duration::from_secs(30);

/// Methods whose request is a stream.
const STREAMS: [&str; 3] = [
    "/openskill.v1.SkillService/InvokeMany",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
];

pub(crate) async fn body_timeout(request: Request, next: Next) -> Response {
    if STREAMS.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let limited = request.map(|body| Body::new(Limited { body, over: Box::pin(tokio::time::sleep(LIMIT)) }));
    next.run(limited).await
}

/// The body took too long.
#[derive(Debug, thiserror::Error)]
#[error("the body took longer than {} s to arrive", LIMIT.as_secs())]
struct TooSlow;

struct Limited {
    body: Body,
    over: Pin<Box<Sleep>>,
}

impl http_body::Body for Limited {
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        self.over.as_mut().poll(context).map(|()| Some(Err(TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
