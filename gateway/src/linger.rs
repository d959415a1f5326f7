//! Closing a connection without taking its last answer back.
//!
//! A socket that is closed while something of the other side is unread is reset, and a reset throws away what the other
//! side has not read yet: the answer to its last call, say. So a connection that is done says so, and goes on reading until
//! the other side is done too, for a moment.

use std::io::{ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Sleep;
use tokio_util::task::TaskTracker;

/// How long, and how much is still read.
const LINGER: Duration = Duration::from_secs(1);
const MOST: u64 = 1024 * 1024;

/// How long the other side may take nothing of what is written.
const STALL: Duration = Duration::from_secs(60);

/// A stream that lingers when it is dropped.
pub(crate) struct Lingering {
    /// Taken by the drop alone.
    stream: Option<TcpStream>,
    /// Its place among the connections, kept until it is really closed.
    place: Option<OwnedSemaphorePermit>,
    tasks: TaskTracker,
    /// Runs while the other side takes nothing.
    stall: Option<Pin<Box<Sleep>>>,
}

impl Lingering {
    /// `tasks` are waited for before the runtime ends.
    pub(crate) fn new(stream: TcpStream, place: OwnedSemaphorePermit, tasks: TaskTracker) -> Self {
        Self { stream: Some(stream), place: Some(place), tasks, stall: None }
    }

    fn with<T>(&mut self, poll: impl FnOnce(Pin<&mut TcpStream>) -> Poll<Result<T>>) -> Poll<Result<T>> {
        match &mut self.stream {
            Some(stream) => poll(Pin::new(stream)),
            None => Poll::Ready(Err(ErrorKind::NotConnected.into())),
        }
    }
}

/// What a write came to; an error if it has been waiting for too long. An HTTP/1 client that never reads would keep its
/// connection for ever.
fn in_time<T>(
    written: Poll<Result<T>>,
    stall: &mut Option<Pin<Box<Sleep>>>,
    context: &mut Context<'_>,
) -> Poll<Result<T>> {
    if written.is_ready() {
        *stall = None;
        return written;
    }
    let stall = stall.get_or_insert_with(|| Box::pin(tokio::time::sleep(STALL)));
    stall.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
}

impl Drop for Lingering {
    fn drop(&mut self) {
        if let (Some(stream), Ok(runtime)) = (self.stream.take(), Handle::try_current()) {
            let place = self.place.take();
            let lingering = async move {
                let _ = tokio::time::timeout(LINGER, linger(stream)).await;
                drop(place);
            };
            self.tasks.spawn_on(lingering, &runtime);
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
        let written = self.with(|stream| stream.poll_write(context, bytes));
        in_time(written, &mut self.stall, context)
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
        let written = self.with(|stream| stream.poll_write_vectored(context, slices));
        in_time(written, &mut self.stall, context)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.as_ref().is_some_and(TcpStream::is_write_vectored)
    }
}
