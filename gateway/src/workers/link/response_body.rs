//! The body of a worker's response.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use h2::RecvStream;
use http_body::{Body, Frame};

/// Yields data as it arrives, then the trailers. Dropping it before its end resets the stream, so that the worker
/// ends the call.
#[derive(Debug)]
pub(crate) struct ResponseBody {
    stream: RecvStream,
    data_is_over: bool,
}

impl ResponseBody {
    pub(super) fn new(stream: RecvStream) -> Self {
        Self { stream, data_is_over: false }
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = h2::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, h2::Error>>> {
        if !self.data_is_over {
            if let Some(data) = ready!(self.stream.poll_data(context)) {
                if let Ok(bytes) = &data {
                    // Return the flow-control window. On a stream that has ended, this fails, which does no harm.
                    let _ = self.stream.flow_control().release_capacity(bytes.len());
                }
                return Poll::Ready(Some(data.map(Frame::data)));
            }
            self.data_is_over = true;
        }
        let trailers = ready!(self.stream.poll_trailers(context));
        Poll::Ready(trailers.transpose().map(|trailers| trailers.map(Frame::trailers)))
    }

    fn is_end_stream(&self) -> bool {
        self.stream.is_end_stream()
    }
}
