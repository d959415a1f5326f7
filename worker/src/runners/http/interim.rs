//! Bounds the interim answers that a server may send before its final one: `100 Continue`, `103 Early Hints` and any other 1xx.
//!
//! The HTTP library reads over any number of them, and so would read until the deadline. Over HTTP/1 it tells of each one.
//! Over HTTP/2 it does not, so that the frames that begin an answer are counted as they arrive. Either way the
//! connection is marked as [`Flooded`], and nothing more is read from it.

use std::collections::BTreeMap;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use http::{Extensions, Request};
use hyper::ext::on_informational;
use hyper_util::client::legacy::connect::{CaptureConnection, Connected, Connection, capture_connection};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The most interim answers to one request.
pub(super) const MAX_INTERIM: usize = 8;

/// The most streams of an HTTP/2 connection that are watched. Older ones are forgotten: their answers were dropped.
const MAX_STREAMS: usize = 4096;

/// Whether a connection's server sent too many interim answers.
#[derive(Debug, Clone, Default)]
struct Flooded(Arc<AtomicBool>);

/// Watches the answers to one request.
pub(super) struct Watch(CaptureConnection);

impl Watch {
    /// Must be called before the request is sent.
    pub(super) fn over<B>(request: &mut Request<B>) -> Self {
        let captured = capture_connection(request);
        let (watched, count) = (captured.clone(), AtomicUsize::new(0));
        on_informational(request, move |_| {
            if count.fetch_add(1, Ordering::Relaxed) >= MAX_INTERIM
                && let Some(flooded) = flooded(&watched)
            {
                flooded.0.store(true, Ordering::Release);
            }
        });
        Self(captured)
    }

    /// Whether the server of its connection sent too many interim answers.
    pub(super) fn is_flooded(&self) -> bool {
        flooded(&self.0).is_some_and(|it| it.0.load(Ordering::Acquire))
    }
}

fn flooded(captured: &CaptureConnection) -> Option<Flooded> {
    let mut extras = Extensions::new();
    captured.connection_metadata().as_ref()?.get_extras(&mut extras);
    extras.remove()
}

/// A connection that is read no further once it is flooded.
#[derive(Debug)]
pub(super) struct Watched<T> {
    inner: T,
    flooded: Flooded,
    /// Of an HTTP/2 connection.
    frames: Option<Frames>,
}

impl<T: Connection> Watched<T> {
    pub(super) fn new(inner: T) -> Self {
        let frames = inner.connected().is_negotiated_h2().then(Frames::default);
        Self { inner, flooded: Flooded::default(), frames }
    }
}

impl<T: Connection> Connection for Watched<T> {
    fn connected(&self) -> Connected {
        self.inner.connected().extra(self.flooded.clone())
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
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

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
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

/// Counts the HEADERS frames of each stream of an HTTP/2 connection that do not end it: its interim answers and its final one.
#[derive(Debug, Default)]
struct Frames {
    /// The header of the next frame, as far as it was read.
    header: [u8; 9],
    filled: usize,
    /// How much is left of the current frame.
    left: usize,
    heads: BTreeMap<u32, usize>,
}

impl Frames {
    /// Takes the next bytes from the server. Whether no stream has too many answers.
    fn are_bounded(&mut self, mut bytes: &[u8]) -> bool {
        loop {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = &bytes[skipped..];
            let taken = bytes.len().min(self.header.len() - self.filled);
            self.header[self.filled..][..taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled < self.header.len() {
                return true;
            }
            self.filled = 0;
            if !self.is_bounded() {
                return false;
            }
        }
    }

    /// The same for the frame whose header is complete.
    fn is_bounded(&mut self) -> bool {
        const DATA: u8 = 0;
        const HEADERS: u8 = 1;
        const RST_STREAM: u8 = 3;
        const END_STREAM: u8 = 1;
        let [high, middle, low, kind, flags, stream @ ..] = self.header;
        self.left = u32::from_be_bytes([0, high, middle, low]) as usize;
        let stream = u32::from_be_bytes(stream) & 0x7fff_ffff;
        if kind == RST_STREAM || (matches!(kind, DATA | HEADERS) && flags & END_STREAM != 0) {
            self.heads.remove(&stream);
            return true;
        }
        if kind != HEADERS {
            return true;
        }
        let heads = self.heads.entry(stream).or_default();
        *heads += 1;
        let is_bounded = *heads <= MAX_INTERIM + 1;
        if self.heads.len() > MAX_STREAMS {
            self.heads.pop_first();
        }
        is_bounded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, flags: u8, stream: u32, length: usize) -> Vec<u8> {
        let length = u32::try_from(length).unwrap().to_be_bytes();
        let header = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        // Each byte of what is in it could begin a frame of answers.
        header.into_iter().chain((0..length[3]).map(|_| 1)).collect()
    }

    fn are_bounded(bytes: &[u8], at_a_time: usize) -> bool {
        let mut frames = Frames::default();
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
        let mut frames = Frames::default();
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
