//! Where messages end: a zero byte, which no JSON text holds.

use std::io::Result;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// How much is read at a time.
const CHUNK_BYTES: usize = 64 * 1024;

/// How much is kept of a message that is too long.
const BEGINNING_BYTES: usize = 64;

/// Cuts what is read into messages.
pub struct Frames<R> {
    from: R,
    buffer: Vec<u8>,
    /// Where the next message begins.
    begin: usize,
    /// Up to where no end was found.
    searched: usize,
    max_bytes: usize,
    /// Whether what comes belongs to a message that is too long.
    skips: bool,
    /// How the last such message begins.
    beginning: Vec<u8>,
}

/// A message.
#[derive(Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// It is longer than it may be: how it begins.
    TooLong(&'a [u8]),
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// `max_bytes`: the longest message. Of longer ones the beginning is kept: a page can cause them, and must not end
    /// the connection.
    pub fn new(from: R, max_bytes: usize) -> Self {
        Self { from, buffer: Vec::new(), begin: 0, searched: 0, max_bytes, skips: false, beginning: Vec::new() }
    }

    /// The next message. None: there are no more. Not safe to drop and call again: half a read would be lost.
    ///
    /// # Errors
    /// Reading failed.
    pub async fn next(&mut self) -> Result<Option<Frame<'_>>> {
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
                // Its memory goes too.
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

    /// All messages; one that is too long as its beginning in brackets.
    async fn all(bytes: &[u8], max_bytes: usize) -> Result<Vec<Vec<u8>>> {
        let (mut frames, mut found) = (Frames::new(bytes, max_bytes), Vec::new());
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
        let mut frames = Frames::new(from, 100);
        assert_eq!(frames.next().await.unwrap().unwrap(), Frame::Whole(b"first one"));
        assert_eq!(frames.next().await.unwrap().unwrap(), Frame::Whole(b"second"));
        assert!(frames.next().await.unwrap().is_none());
        writer.await.unwrap();
    }
}
