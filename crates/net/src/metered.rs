//! An HTTP/2 connection that ends when its client floods it with control frames.
//!
//! It watches the frames in both directions. When the budget of control frames is exceeded, it sends GOAWAY with
//! ENHANCE_YOUR_CALM, and reads fail. It also limits the frames that one connection reads in a row, so that the
//! tasks of other connections can run.

use std::future::poll_fn;
use std::io::{Error, IoSlice, Result};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Instant;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::task::coop;

use crate::budget::FrameBudget;
use crate::frames::{FrameScanner, Header, kind};

/// The number of frames that cost as much of a task's cooperative budget as one read from a socket. The budget of
/// a task is 128 such steps.
const FRAMES_A_STEP: usize = 4;

const ENHANCE_YOUR_CALM: u32 = 11;
const DEBUG_DATA: &[u8] = b"too many control frames";

/// The error of a client that sent too many control frames.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the client sent too many control frames")]
pub struct ControlFlood;

/// A server's HTTP/2 connection, metered from its first byte.
#[derive(Debug)]
pub struct Metered<S> {
    stream: S,
    budget: FrameBudget,
    received: FrameScanner,
    sent: FrameScanner,
    /// The highest stream id that the client has opened.
    last_stream: u32,
    /// Set once the budget is exceeded. The owner of the connection reads it too.
    flooded: Arc<AtomicBool>,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Metered<S> {
    /// Wraps a fresh stream, without any read or write so far. The returned flag is set once the client floods it.
    pub fn new(stream: S) -> (Self, Arc<AtomicBool>) {
        let flooded = Arc::new(AtomicBool::new(false));
        let metered = Self {
            stream,
            budget: FrameBudget::new(Instant::now()),
            received: FrameScanner::for_client(),
            sent: FrameScanner::for_server(),
            last_stream: 0,
            flooded: Arc::clone(&flooded),
        };
        (metered, flooded)
    }

    /// Fails once the client has flooded the connection.
    fn check(&self) -> Result<()> {
        if self.flooded.load(Ordering::Relaxed) { Err(Error::other(ControlFlood)) } else { Ok(()) }
    }

    /// Counts the frames in these bytes. Returns false if the control frame budget is exceeded.
    fn count(&mut self, bytes: &[u8], context: &mut Context<'_>) -> bool {
        let (mut work, mut is_within) = (0, true);
        let Self { budget, last_stream, .. } = self;
        self.received.take(bytes, |header| {
            is_within = is_within && budget.count(header, Instant::now);
            work += 1;
            if header.kind == kind::HEADERS {
                *last_stream = header.stream.max(*last_stream);
            }
        });
        for _ in 0..work / FRAMES_A_STEP {
            match coop::poll_proceed(context) {
                Poll::Ready(step) => step.made_progress(),
                // The task's cooperative budget is used up: the next read waits for the task's next turn.
                Poll::Pending => break,
            }
        }
        is_within
    }

    /// Sends GOAWAY with the reason, unless the write would block or would split a frame.
    fn send_goaway(&mut self, context: &mut Context<'_>) {
        if self.sent.is_between() {
            let length = 8 + DEBUG_DATA.len() as u32;
            let header = Header { length, kind: kind::GOAWAY, flags: 0, stream: 0 };
            let (last, code) = (self.last_stream.to_be_bytes(), ENHANCE_YOUR_CALM.to_be_bytes());
            let frame = [&header.bytes()[..], &last, &code, DEBUG_DATA].concat();
            // Write even if the task's cooperative budget is used up. This is the last write, so it cannot starve
            // other tasks.
            let write = poll_fn(|context| Pin::new(&mut self.stream).poll_write(context, &frame));
            let _ = pin!(coop::unconstrained(write)).poll(context);
        }
    }

    /// Counts the first `count` bytes of these slices, which were written, and tracks their frames.
    fn record_write<'a>(&mut self, slices: impl IntoIterator<Item = &'a [u8]>, count: usize) {
        self.budget.earn(count);
        let mut left = count;
        for slice in slices {
            let length = slice.len().min(left);
            self.sent.take(&slice[..length], |_| {});
            left -= length;
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Metered<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        self.check()?;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if self.count(&buffer.filled()[before..], context) {
            return Poll::Ready(Ok(()));
        }
        self.flooded.store(true, Ordering::Relaxed);
        // A failed read must not return data.
        buffer.set_filled(before);
        self.send_goaway(context);
        Poll::Ready(Err(Error::other(ControlFlood)))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.check()?;
        let count = ready!(Pin::new(&mut self.stream).poll_write(context, bytes))?;
        self.record_write([bytes], count);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.check()?;
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, slices))?;
        self.record_write(slices.iter().map(|slice| &**slice), count);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};

    use super::*;
    use crate::frames::PREFACE;

    const PING: u8 = 6;

    async fn connected() -> (Metered<DuplexStream>, DuplexStream) {
        let (server, mut client) = tokio::io::duplex(1 << 20);
        let (mut server, _) = Metered::new(server);
        client.write_all(PREFACE).await.unwrap();
        client.write_all(&Header { length: 0, kind: kind::HEADERS, flags: 0, stream: 7 }.bytes()).await.unwrap();
        server.read_exact(&mut [0; PREFACE.len() + 9]).await.unwrap();
        (server, client)
    }

    async fn send_pings(client: &mut DuplexStream, count: usize) {
        let ping = [&Header { length: 8, kind: PING, flags: 0, stream: 0 }.bytes()[..], &[0; 8]].concat();
        client.write_all(&ping.repeat(count)).await.unwrap();
    }

    async fn goodbye(mut client: DuplexStream) -> Vec<u8> {
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
        rest
    }

    #[tokio::test]
    async fn a_flood_ends_with_enhance_your_calm() {
        let (mut server, mut client) = connected().await;
        send_pings(&mut client, 10_000).await;
        let error = server.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert!(error.get_ref().is_some_and(|it| it.is::<ControlFlood>()), "{error}");
        assert!(server.flooded.load(Ordering::Relaxed), "its owner knows");
        assert!(server.read_u8().await.is_err() && server.write_u8(0).await.is_err(), "and stays over");
        drop(server);
        let frame = goodbye(client).await;
        let header = Header::parse(frame[..9].try_into().unwrap());
        assert_eq!((header.kind, header.length as usize), (kind::GOAWAY, frame.len() - 9));
        assert_eq!(frame[9..17], [0, 0, 0, 7, 0, 0, 0, 11], "the last stream, and the code");
    }

    #[tokio::test]
    async fn no_goodbye_is_put_into_a_frame_that_is_half_sent() {
        let (mut server, mut client) = connected().await;
        let begun = [&Header { length: 100, kind: kind::DATA, flags: 0, stream: 7 }.bytes()[..], &[1; 50]].concat();
        server.write_all(&begun).await.unwrap();
        send_pings(&mut client, 10_000).await;
        server.read_to_end(&mut Vec::new()).await.unwrap_err();
        drop(server);
        assert_eq!(goodbye(client).await, begun);
    }

    #[tokio::test]
    async fn a_client_that_is_sent_much_may_ping_much() {
        let (mut server, mut client) = connected().await;
        for _ in 0..100 {
            let slices = [IoSlice::new(&[0; 9]), IoSlice::new(&[0; 9 * 1000])];
            let written = poll_fn(|context| Pin::new(&mut server).poll_write_vectored(context, &slices));
            let written = written.await.unwrap();
            client.read_exact(&mut vec![0; written]).await.unwrap();
            send_pings(&mut client, 100).await;
            server.read_exact(&mut [0; 1700]).await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_client_that_sends_small_frames_gives_way_to_others() {
        let (mut server, mut client) = connected().await;
        let small = [&Header { length: 1, kind: kind::DATA, flags: 0, stream: 7 }.bytes()[..], &[0]].concat();
        client.write_all(&small.repeat(20_000)).await.unwrap();
        let reading = tokio::spawn(async move {
            let (mut piece, mut left) = ([0; 8000], 200_000);
            while left > 0 {
                left -= server.read(&mut piece).await.unwrap();
            }
        });
        let mut turns = 0;
        while !reading.is_finished() {
            tokio::task::yield_now().await;
            turns += 1;
        }
        reading.await.unwrap();
        assert!(turns > 10, "{turns}");
    }
}
