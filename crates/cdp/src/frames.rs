//! Where messages end: a zero byte, which no JSON text holds.

use std::io::Result;

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
    /// Whether what comes belongs to a message that is too long.
    skips: bool,
}

impl<R: AsyncRead + Unpin> Frames<R> {
    /// `max_bytes`: the longest message. Longer ones are skipped: a page can cause them, and must not end the connection.
    pub fn new(from: R, max_bytes: usize) -> Self {
        Self { from, buffer: Vec::new(), begin: 0, searched: 0, max_bytes, skips: false }
    }

    /// The next message. None: there are no more. Not safe to drop and call again: half a read would be lost.
    ///
    /// # Errors
    /// Reading failed.
    pub async fn next(&mut self) -> Result<Option<&[u8]>> {
        let end = loop {
            if let Some(at) = memchr::memchr(0, &self.buffer[self.searched..]) {
                let end = self.searched + at;
                if !std::mem::take(&mut self.skips) {
                    break end;
                }
                self.begin = end + 1;
                self.searched = self.begin;
                continue;
            }
            self.buffer.drain(..self.begin);
            self.begin = 0;
            if self.skips || self.buffer.len() > self.max_bytes {
                self.skips = true;
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
    async fn a_message_that_is_too_long_is_skipped() {
        let long = [b"a\0".to_vec(), vec![b'x'; 200_000], b"\0b\0".to_vec()].concat();
        assert_eq!(all(&long, 100_000).await.unwrap(), [&b"a"[..], b"b"]);
        assert_eq!(all(&long, 300_000).await.unwrap(), [&b"a"[..], &vec![b'x'; 200_000], b"b"]);
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
