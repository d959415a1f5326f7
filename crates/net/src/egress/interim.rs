//! Limits the interim responses that a server may send before the final response: `100 Continue`, `103 Early
//! Hints` and any other 1xx.
//!
//! The HTTP library skips any number of them until the deadline. It reports each one over HTTP/1, but not over
//! HTTP/2, so there the frames that begin a response are counted as they arrive. In both cases, the connection is
//! marked as [`Flooded`] and is no longer read.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use crate::frames::{END_STREAM, FrameScanner, Header, kind};
use http::{Extensions, Request};
use hyper::ext::on_informational;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection, capture_connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum number of interim responses to a request.
pub(super) const MAX_INTERIM: usize = 8;

/// The maximum number of watched streams of an HTTP/2 connection. The oldest are forgotten, because their
/// responses were dropped.
const MAX_STREAMS: usize = 4096;

/// Set once the server has sent too many interim responses on a connection.
#[derive(Debug, Clone, Default)]
struct Flooded(Arc<AtomicBool>);

/// Watches for interim responses to a request.
pub(super) struct Watch(CaptureConnection);

impl Watch {
    /// Starts watching. Must be called before the request is sent.
    pub(super) fn over<B>(request: &mut Request<B>) -> Self {
        let captured = capture_connection(request);
        let (watched, count) = (captured.clone(), AtomicUsize::new(0));
        on_informational(request, move |_| {
            if count.fetch_add(1, Ordering::Relaxed) >= MAX_INTERIM
                && let Some(mark) = flood_mark(&watched)
            {
                mark.0.store(true, Ordering::Release);
            }
        });
        Self(captured)
    }

    /// Returns whether the server sent too many interim responses on this request's connection.
    pub(super) fn is_flooded(&self) -> bool {
        flood_mark(&self.0).is_some_and(|it| it.0.load(Ordering::Acquire))
    }
}

fn flood_mark(captured: &CaptureConnection) -> Option<Flooded> {
    let mut extras = Extensions::new();
    captured.connection_metadata().as_ref()?.get_extras(&mut extras);
    extras.remove()
}

/// A connection that stops reading once it is flooded.
#[derive(Debug)]
pub(super) struct WatchedConnection<T> {
    inner: T,
    flooded: Flooded,
    /// Counts frames. `None` for HTTP/1 connections.
    frames: Option<HeaderFrameCounter>,
}

impl<T: Connection> WatchedConnection<T> {
    pub(super) fn new(inner: T) -> Self {
        let frames = inner.connected().is_negotiated_h2().then(HeaderFrameCounter::default);
        Self { inner, flooded: Flooded::default(), frames }
    }
}

impl<T: Connection> Connection for WatchedConnection<T> {
    fn connected(&self) -> Connected {
        self.inner.connected().extra(self.flooded.clone())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WatchedConnection<T> {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        if !this.flooded.0.load(Ordering::Acquire) {
            ready!(Pin::new(&mut this.inner).poll_read(context, buffer))?;
            if this.frames.as_mut().is_none_or(|frames| frames.are_bounded(&buffer.filled()[before..])) {
                return Poll::Ready(Ok(()));
            }
            this.flooded.0.store(true, Ordering::Release);
        }
        Poll::Ready(Err(io::Error::other("too many interim answers")))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WatchedConnection<T> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().inner).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

/// Counts the HEADERS frames without END_STREAM in each stream of an HTTP/2 connection: interim responses and the
/// final response.
#[derive(Debug, Default)]
struct HeaderFrameCounter {
    scanner: FrameScanner,
    heads: BTreeMap<u32, usize>,
}

impl HeaderFrameCounter {
    /// Processes bytes from the server. Returns `false` if a stream has too many responses.
    fn are_bounded(&mut self, bytes: &[u8]) -> bool {
        let (heads, mut are_bounded) = (&mut self.heads, true);
        self.scanner.take(bytes, |frame| are_bounded &= is_bounded(heads, frame));
        are_bounded
    }
}

/// Processes a frame from the server. Returns `false` if its stream has too many responses.
fn is_bounded(heads: &mut BTreeMap<u32, usize>, frame: Header) -> bool {
    let ends_stream = matches!(frame.kind, kind::DATA | kind::HEADERS) && frame.flags & END_STREAM != 0;
    if ends_stream || frame.kind == kind::RST_STREAM {
        heads.remove(&frame.stream);
        return true;
    }
    if frame.kind != kind::HEADERS {
        return true;
    }
    let count = heads.entry(frame.stream).or_default();
    *count += 1;
    let is_bounded = *count <= MAX_INTERIM + 1;
    if heads.len() > MAX_STREAMS {
        heads.pop_first();
    }
    is_bounded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: usize) -> Vec<u8> {
        let length = u32::try_from(length).unwrap().to_be_bytes();
        let header = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        // Each payload byte could look like the beginning of a frame.
        header.into_iter().chain((0..length[3]).map(|_| 1)).collect()
    }

    fn are_bounded(bytes: &[u8], at_a_time: usize) -> bool {
        let mut frames = HeaderFrameCounter::default();
        bytes.chunks(at_a_time).all(|bytes| frames.are_bounded(bytes))
    }

    #[test]
    fn answers_are_counted_however_their_frames_arrive() {
        let answers = |count: usize| -> Vec<u8> {
            let settings = frame(4, 0, 0, 18);
            let ends = [frame(0, 0, 1, 200), frame(1, 5, 1, 11)].concat();
            [settings, frame(1, 4, 1, 7).repeat(count), ends].concat()
        };
        for at_a_time in [1, 2, 8, 9, 10, 17, 10_000] {
            assert!(are_bounded(&answers(1), at_a_time), "{at_a_time}");
            assert!(are_bounded(&answers(MAX_INTERIM + 1), at_a_time), "{at_a_time}");
            assert!(are_bounded(&answers(MAX_INTERIM + 1).repeat(3), at_a_time), "{at_a_time}");
            assert!(!are_bounded(&answers(MAX_INTERIM + 2), at_a_time), "{at_a_time}");
        }
    }

    #[test]
    fn each_stream_has_a_count_of_its_own_and_few_are_kept() {
        let mut frames = HeaderFrameCounter::default();
        for stream in 0..100_000 {
            assert!(frames.are_bounded(&frame(1, 4, 2 * stream + 1, 0)));
        }
        assert_eq!(frames.heads.len(), MAX_STREAMS);
        assert!(frames.are_bounded(&frame(3, 0, 199_999, 4)));
        assert_eq!(frames.heads.len(), MAX_STREAMS - 1);
        assert!((0..MAX_INTERIM).all(|_| frames.are_bounded(&frame(1, 4, 199_997, 0))));
        assert!(!frames.are_bounded(&frame(1, 4, 199_997, 0)));
    }
}
