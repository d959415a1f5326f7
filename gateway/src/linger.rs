//! Closing a connection without taking its last answer back.
//!
//! A socket that is closed while something of the other side is unread is reset, and a reset throws away what the other
//! side has not read yet: the answer to its last call, say. So a connection that is done says so, and goes on reading until
//! the other side is done too, for a moment.

use std::io::{IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

/// How long, and how much is still read.
const LINGER: Duration = Duration::from_secs(1);
const MOST: u64 = 1024 * 1024;

/// A stream that lingers when it is dropped.
pub(crate) struct Lingering {
    /// Taken by the drop alone.
    stream: Option<TcpStream>,
    tasks: TaskTracker,
}

impl Lingering {
    /// `tasks` are waited for before the runtime ends.
    pub(crate) fn new(stream: TcpStream, tasks: TaskTracker) -> Self {
        Self { stream: Some(stream), tasks }
    }

    fn with<T>(&mut self, poll: impl FnOnce(Pin<&mut TcpStream>) -> Poll<Result<T>>) -> Poll<Result<T>> {
        match &mut self.stream {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(std::io::ErrorKind::NotConnected.into())),
        }
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if let (Some(stream), Ok(runtime)) = (self.stream.take(), Handle::try_current()) {
            self.tasks.spawn_on(tokio::time::timeout(LINGER, linger(stream)), &runtime);
        }
    }
}

async fn linger(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let _ = tokio::io::copy(&mut stream.take(MOST), &mut tokio::io::sink()).await;
}

impl AsyncRead for Lingering {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        self.with(|stream| stream.poll_read(context, buffer))
    }
}

impl AsyncWrite for Lingering {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.with(|stream| stream.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.with(|stream| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        self.with(|stream| stream.poll_shutdown(context))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.with(|stream| stream.poll_write_vectored(context, slices))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(TcpStream::is_write_vectored)
    }
}
