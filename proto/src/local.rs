//! A unix socket that wakes its owner only for what is waited for.
//!
//! Asked whether a socket can be read or written, the kernel tells both; and a unix socket becomes "writable" each time the
//! other side has read something. So each message that was sent would wake its sender once for nothing, which costs more
//! than sending it. Here the socket is watched for reading; for writing only while a write has to wait.

use std::io::{ErrorKind, IoSlice, Read as _, Result, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// The socket.
#[derive(Debug)]
pub struct LocalStream {
    /// Watched for reading.
    stream: AsyncFd<UnixStream>,
    /// The same socket under another number, watched for writing: there since a write had to wait.
    writable: Option<AsyncFd<OwnedFd>>,
}

#[allow(
    deprecated,
    reason = "deprecated for what may close its descriptor while it is watched; a socket of our own keeps it"
)]
fn watched<T: AsRawFd>(socket: T, interest: Interest) -> Result<AsyncFd<T>> {
    AsyncFd::with_interest(socket, interest)
}

impl LocalStream {
    /// Within a tokio runtime.
    ///
    /// # Errors
    /// The system's, if the socket can't be watched.
    pub fn new(stream: UnixStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream: watched(stream, Interest::READABLE)?, writable: None })
    }

    fn poll_write_with(
        &mut self,
        context: &mut Context<'_>,
        write: impl Fn(&mut &UnixStream) -> Result<usize>,
    ) -> Poll<Result<usize>> {
        loop {
            let guard = match &self.writable {
                Some(writable) => Some(ready!(writable.poll_write_ready(context))?),
                None => None,
            };
            match write(&mut self.stream.get_ref()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => match guard {
                    Some(mut guard) => guard.clear_ready(),
                    None => {
                        let second = OwnedFd::from(self.stream.get_ref().try_clone()?);
                        self.writable = Some(watched(second, Interest::WRITABLE)?);
                    }
                },
                written => {
                    // Watched no more: it would wake for each message again.
                    self.writable = None;
                    return Poll::Ready(written);
                }
            }
        }
    }
}

impl AsyncRead for LocalStream {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        loop {
            let mut guard = ready!(self.stream.poll_read_ready(context))?;
            let room = buffer.remaining();
            match self.stream.get_ref().read(buffer.initialize_unfilled()) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Poll::Ready(Err(error)),
                Ok(count) => {
                    // Less than there was room for: nothing is left, and what comes next is told anew.
                    if 0 < count && count < room {
                        guard.clear_ready();
                    }
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}

impl AsyncWrite for LocalStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize>> {
        self.poll_write_with(context, |stream| stream.write(bytes))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        self.poll_write_with(context, |stream| stream.write_vectored(slices))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        match self.stream.get_ref().shutdown(Shutdown::Write) {
            // The other side was quicker.
            Err(error) if error.kind() == ErrorKind::NotConnected => Poll::Ready(Ok(())),
            done => Poll::Ready(done),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    fn pair() -> (LocalStream, LocalStream) {
        let (one, other) = UnixStream::pair().unwrap();
        (LocalStream::new(one).unwrap(), LocalStream::new(other).unwrap())
    }

    #[tokio::test]
    async fn more_than_fits_arrives_whole_and_the_end_is_heard() {
        let (mut one, mut other) = pair();
        let sent: Vec<u8> = (0..4_000_000_u32).map(|it| it as u8).collect();
        let expected = sent.clone();
        let sending = tokio::spawn(async move {
            one.write_all(&sent).await.unwrap();
            one.shutdown().await.unwrap();
            // Kept, so that the end that is heard is that of the shutdown.
            one
        });
        let mut received = Vec::new();
        other.read_to_end(&mut received).await.unwrap();
        assert!(received == expected);
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn messages_go_back_and_forth() {
        let (mut one, mut other) = pair();
        let echo = tokio::spawn(async move {
            let mut buffer = [0; 64];
            while let Ok(count @ 1..) = other.read(&mut buffer).await {
                other.write_all(&buffer[..count]).await.unwrap();
            }
        });
        for number in 0..100_u8 {
            one.write_all(&[number; 10]).await.unwrap();
            let mut answer = [0; 10];
            one.read_exact(&mut answer).await.unwrap();
            assert_eq!(answer, [number; 10]);
        }
        assert!(one.writable.is_none(), "no write had to wait");
        drop(one);
        echo.await.unwrap();
    }
}
