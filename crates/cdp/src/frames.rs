//! Where messages end: a zero byte, which no JSON text holds.

use std::io::{Error, ErrorKind, Result};

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How much is read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// Cuts what is read into messages.
pub struct Frames<R> {
    from: R,
    buffer: Vec<u8>,
    /// Where the next message begins.
    begin: usize,
    /// Up to where no end was found.
    searched: usize,
    max_bytes: usize,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// `max_bytes`: the longest message.
    pub fn new(from: R, max_bytes: usize) -> Self {
        Self { from, buffer: Vec::new(), begin: 0, searched: 0, max_bytes }
    }

    /// The next message. None: there are no more. Not safe to drop and call again: half a read would be lost.
    ///
    /// # Errors
    /// Reading failed, or a message is longer than allowed.
    pub async fn next(&mut self) -> Result<Option<&[u8]>> {
        let end = loop {
            if let Some(at) = memchr::memchr(0, &self.buffer[self.searched..]) {
                break self.searched + at;
            }
            self.buffer.drain(..self.begin);
            self.begin = 0;
            self.searched = self.buffer.len();
            if self.searched > self.max_bytes {
                return Err(Error::new(ErrorKind::InvalidData, "a message is longer than allowed"));
            }
            self.buffer.reserve(CHUNK_BYTES);
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        };
        let message = self.begin..end;
        self.begin = end + 1;
        self.searched = self.begin;
        Ok(Some(&self.buffer[message]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8], max_bytes: usize) -> Result<Vec<Vec<u8>>> {
        let (mut frames, mut found) = (Frames::new(bytes, max_bytes), Vec::new());
        while let Some(message) = frames.next().await? {
            found.push(message.to_vec());
        }
        Ok(found)
    }

    #[tokio::test]
    async fn messages_end_at_zero_bytes() {
        assert_eq!(all(b"a\0bc\0\0rest", 10).await.unwrap(), [&b"a"[..], b"bc", b""]);
        assert!(all(b"", 10).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_message_that_is_too_long_is_an_error() {
        let long = [vec![b'x'; 200_000], vec![0]].concat();
        assert!(all(&long, 100).await.is_err());
        assert_eq!(all(&long, 300_000).await.unwrap(), [vec![b'x'; 200_000]]);
    }

    #[tokio::test]
    async fn messages_that_come_in_pieces_are_put_together() {
        let (mut to, from) = tokio::io::duplex(3);
        let writer = tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut to, b"first one\0second\0").await.unwrap();
        });
        let mut frames = Frames::new(from, 100);
        assert_eq!(frames.next().await.unwrap().unwrap(), b"first one");
        assert_eq!(frames.next().await.unwrap().unwrap(), b"second");
        assert!(frames.next().await.unwrap().is_none());
        writer.await.unwrap();
    }
}
