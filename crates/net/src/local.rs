//! A Unix socket that wakes its task only for the readiness that the task waits for.
//!
//! A socket registered for both directions reports both, and a Unix socket becomes writable each time the peer
//! reads. So each message would cause a useless wakeup of its sender, which costs more than sending the message.
//! This socket is registered for reading, and for writing only while a write has to wait.

use std::io::{ErrorKind, IoSlice, Read as _, Result, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};

/// A connected Unix socket.
#[derive(Debug)]
pub struct LocalStream {
    /// The socket, registered for reading.
    stream: AsyncFd<UnixStream>,
    /// A duplicate of the descriptor, registered for writing while a write has to wait.
    writable: Option<AsyncFd<OwnedFd>>,
}

#[allow(
    deprecated,
    reason = "deprecated for types that may close their descriptor while it is registered; this socket keeps its own"
)]
fn register<T: AsRawFd>(socket: T, interest: Interest) -> Result<AsyncFd<T>> {
    AsyncFd::with_interest(socket, interest)
}

impl LocalStream {
    /// Registers the socket with the current runtime.
    ///
    /// # Errors
    /// The registration fails.
    ///
    /// # Panics
    /// Panics outside of a tokio runtime.
    pub fn new(stream: UnixStream) -> Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self { stream: register(stream, Interest::READABLE)?, writable: None })
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
                        self.writable = Some(register(second, Interest::WRITABLE)?);
                    }
                },
                written => {
                    // Deregister. Otherwise each message would wake the task again.
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
                    // A short read has emptied the socket. The next bytes make it ready again.
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
            // The peer has already closed the connection.
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
    async fn a_write_larger_than_the_socket_buffer_arrives_whole() {
        let (mut one, mut other) = pair();
        let sent: Vec<u8> = (0..4_000_000_u32).map(|it| it as u8).collect();
        let expected = sent.clone();
        let sending = tokio::spawn(async move {
            one.write_all(&sent).await.unwrap();
            one.shutdown().await.unwrap();
            // Return the stream, so that the peer sees the shutdown rather than the drop.
            one
        });
        let mut received = Vec::new();
        other.read_to_end(&mut received).await.unwrap();
        assert!(received == expected);
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn no_write_is_registered_for_small_messages() {
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
