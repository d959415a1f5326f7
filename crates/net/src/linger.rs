//! Closes a connection without losing its last response.
//!
//! If a socket is closed with unread input, the kernel resets the connection. A reset discards what the peer has
//! not read yet, such as the response to its last call. So a finished connection first shuts down its write half,
//! and then keeps reading for a bounded time, until the peer has finished too.

use std::any::Any;
use std::io::{ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::runtime::Handle;
use tokio::time::Sleep;
use tokio_util::task::TaskTracker;
use tonic::transport::server::Connected;

/// The time and the number of bytes that a closed connection keeps reading.
const LINGER: Duration = Duration::from_secs(1);
const MAX_LINGER_BYTES: u64 = 1024 * 1024;

/// The time after which a write fails if the peer accepts no bytes.
const WRITE_STALL: Duration = Duration::from_secs(60);

/// A TCP or Unix socket.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// A stream that lingers after it is dropped. Its writes fail once the peer has accepted nothing for a minute.
#[derive(Debug)]
pub struct Lingering<S: Stream> {
    /// `None` only after `drop`.
    stream: Option<S>,
    /// Dropped when the connection is really closed, for example to count open connections.
    guard: Option<Box<dyn Any + Send>>,
    tasks: TaskTracker,
    /// The timeout that runs while the peer accepts no bytes.
    stall: Option<Pin<Box<Sleep>>>,
    /// The same timeout for written but unflushed bytes, as with TLS.
    flush_stall: Option<Pin<Box<Sleep>>>,
}

impl<S: Stream> Lingering<S> {
    /// Wraps a stream. `tasks` tracks the connection while it lingers: wait for it before the runtime ends.
    pub fn new(stream: S, tasks: TaskTracker) -> Self {
        Self { stream: Some(stream), guard: None, tasks, stall: None, flush_stall: None }
    }

    /// Keeps `guard` until the connection has finished lingering.
    #[must_use]
    pub fn holding(mut self, guard: impl Send + 'static) -> Self {
        self.guard = Some(Box::new(guard));
        self
    }

    fn with<T>(&mut self, poll: impl FnOnce(Pin<&mut S>) -> Poll<Result<T>>) -> Poll<Result<T>> {
        match &mut self.stream {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(ErrorKind::NotConnected.into())),
        }
    }
}

/// Returns the outcome of a write, or an error after [`WRITE_STALL`]. Without this timeout, an HTTP/1 client that
/// never reads would keep its connection forever.
fn in_time<T>(
    written: Poll<Result<T>>,
    stall: &mut Option<Pin<Box<Sleep>>>,
    context: &mut Context<'_>,
) -> Poll<Result<T>> {
    if written.is_ready() {
        *stall = None;
        return written;
    }
    let stall = stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(WRITE_STALL)));
    stall.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
}

impl<S: Stream> Drop for Lingering<S> {
    fn drop(&mut self) {
        if let (Some(stream), Ok(runtime)) = (self.stream.take(), Handle::try_current()) {
            let guard = self.guard.take();
            let lingering = async move {
                let _ = tokio::time::timeout(LINGER, linger(stream)).await;
                drop(guard);
            };
            self.tasks.spawn_on(lingering, &runtime);
        }
    }
}

async fn linger(mut stream: impl Stream) {
    let _ = stream.shutdown().await;
    let _ = tokio::io::copy(&mut stream.take(MAX_LINGER_BYTES), &mut tokio::io::sink()).await;
}

impl<S: Stream> AsyncRead for Lingering<S> {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        self.with(|stream| stream.poll_read(context, buffer))
    }
}

impl<S: Stream> AsyncWrite for Lingering<S> {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        let written = self.with(|stream| stream.poll_write(context, bytes));
        in_time(written, &mut self.stall, context)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        // With TLS, a flush writes the bytes that are already encrypted.
        let flushed = self.with(|stream| stream.poll_flush(context));
        in_time(flushed, &mut self.flush_stall, context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let shut_down = self.with(|stream| stream.poll_shutdown(context));
        in_time(shut_down, &mut self.flush_stall, context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let written = self.with(|stream| stream.poll_write_vectored(context, slices));
        in_time(written, &mut self.stall, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(AsyncWrite::is_write_vectored)
    }
}

impl<S: Stream> Connected for Lingering<S> {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}
