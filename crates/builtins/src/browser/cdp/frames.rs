//! Splits a stream into messages at zero bytes, which JSON text never contains.

use std::io::Result;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// The number of bytes that are read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// The number of bytes that are kept of a message above the limit.
const BEGINNING_BYTES: usize = 64;

/// Reads a stream and splits it into messages.
pub(crate) struct FrameReader<R> {
    from: R,
    buffer: Vec<u8>,
    /// The position of the next message in the buffer.
    begin: usize,
    /// The length of the buffer that contains no end of a message.
    searched: usize,
    max_bytes: usize,
    /// Whether the reader is skipping the rest of a message above the limit.
    skips: bool,
    /// The beginning of the last message above the limit.
    beginning: Vec<u8>,
}

/// A message from the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Frame<'a> {
    /// A complete message.
    Whole(&'a [u8]),
    /// The beginning of a message above the limit.
    TooLong(&'a [u8]),
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    /// Creates a reader for messages of up to `max_bytes`. A longer message does not end the connection, because a
    /// page can cause one: only its beginning is kept.
    pub(crate) fn new(from: R, max_bytes: usize) -> Self {
        Self { from, buffer: Vec::new(), begin: 0, searched: 0, max_bytes, skips: false, beginning: Vec::new() }
    }

    /// Reads the next message. Returns `None` at the end of the stream. Not cancel-safe: dropping the future can
    /// lose part of a message.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub(crate) async fn next(&mut self) -> Result<Option<Frame<'_>>> {
        let end = loop {
            if let Some(at) = memchr::memchr(0, &self.buffer[self.searched..]) {
                break self.searched + at;
            }
            self.buffer.drain(..self.begin);
            self.begin = 0;
            if !self.skips && self.buffer.len() > self.max_bytes {
                self.skips = true;
                self.buffer.truncate(BEGINNING_BYTES);
                self.beginning = self.buffer.clone();
            }
            if self.skips {
                // This also frees the memory of the long message.
                self.buffer = Vec::new();
            }
            self.searched = self.buffer.len();
            self.buffer.reserve(CHUNK_BYTES);
            if self.from.read_buf(&mut self.buffer).await? == 0 {
                return Ok(None);
            }
        };
        let message = self.begin..end;
        self.begin = end + 1;
        self.searched = self.begin;
        if std::mem::take(&mut self.skips) {
            return Ok(Some(Frame::TooLong(&self.beginning)));
        }
        Ok(Some(Frame::Whole(&self.buffer[message])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all messages. Shows the beginning of a too long message in brackets.
    async fn all(bytes: &[u8], max_bytes: usize) -> Result<Vec<Vec<u8>>> {
        let (mut frames, mut found) = (FrameReader::new(bytes, max_bytes), Vec::new());
        while let Some(message) = frames.next().await? {
            found.push(match message {
                Frame::Whole(message) => message.to_vec(),
                Frame::TooLong(beginning) => [b"<", beginning, b">"].concat(),
            });
        }
        Ok(found)
    }

    #[tokio::test]
    async fn messages_end_at_zero_bytes() {
        assert_eq!(all(b"a\0bc\0\0rest", 10).await.unwrap(), [&b"a"[..], b"bc", b""]);
        assert!(all(b"", 10).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn of_a_message_that_is_too_long_the_beginning_is_kept() {
        let long = [b"a\0".to_vec(), vec![b'x'; 200_000], b"\0b\0".to_vec()].concat();
        let beginning = [&b"<"[..], &[b'x'; BEGINNING_BYTES], b">"].concat();
        assert_eq!(all(&long, 100_000).await.unwrap(), [&b"a"[..], &beginning, b"b"]);
        let twice = [&long[..], &[b'y'; 200_000], b"\0c\0"].concat();
        assert_eq!(all(&twice, 100_000).await.unwrap().len(), 5);
        assert_eq!(all(&long, 300_000).await.unwrap(), [&b"a"[..], &vec![b'x'; 200_000], b"b"]);
    }

    #[tokio::test]
    async fn messages_that_come_in_pieces_are_put_together() {
        let (mut to, from) = tokio::io::duplex(3);
        let writer = tokio::spawn(async move {
            tokio::io::AsyncWriteExt::write_all(&mut to, b"first one\0second\0").await.unwrap();
        });
        let mut frames = FrameReader::new(from, 100);
        assert_eq!(frames.next().await.unwrap().unwrap(), Frame::Whole(b"first one"));
        assert_eq!(frames.next().await.unwrap().unwrap(), Frame::Whole(b"second"));
        assert!(frames.next().await.unwrap().is_none());
        writer.await.unwrap();
    }
}
