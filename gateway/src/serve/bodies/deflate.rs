//! Compresses the messages of a gRPC response with gzip, for clients that also send gzip.

use std::io::Write as _;

use bytes::{Buf as _, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::state::lazy_share::LazyShare;

/// The minimum size of a compressed message, in bytes. Compressing a smaller one would cost more than it saves.
pub(crate) const WORTHWHILE: usize = 1024;

/// The number of bytes to compress before the task yields.
const TURN: usize = 64 * 1024;

const HEAD: usize = 5;

/// Compresses frames of complete messages.
pub(super) struct Deflate {
    /// The part of the frame that is not processed yet.
    rest: Bytes,
    /// The message that is being compressed, its unprocessed part, and the encoder.
    current: Option<(Bytes, Bytes, GzEncoder<Vec<u8>>)>,
    done: Vec<u8>,
    /// Accounts for the frame, which stays here as long as the client does not read.
    share: LazyShare,
}

impl Deflate {
    pub(super) fn new(share: LazyShare) -> Self {
        Self { rest: Bytes::new(), current: None, done: Vec::new(), share }
    }

    /// Whether no input and no output is left.
    pub(super) fn is_idle(&self) -> bool {
        self.rest.is_empty() && self.current.is_none() && self.done.is_empty()
    }

    /// Takes the next frame. Returns false if the budget is spent.
    pub(super) fn take(&mut self, frame: Bytes) -> bool {
        let fits = self.share.resize(frame.len());
        self.rest = frame;
        fits
    }

    /// Compresses up to one turn of the frame. Returns None if the task should yield first.
    pub(super) fn step(&mut self) -> Option<Bytes> {
        let mut left = TURN;
        while !self.rest.is_empty() || self.current.is_some() {
            if let Some((message, rest, encoder)) = &mut self.current {
                if left == 0 {
                    return None;
                }
                let piece = rest.split_to(rest.len().min(left));
                left -= piece.len();
                // Writing to memory can't fail.
                let _ = encoder.write_all(&piece);
                if !rest.is_empty() {
                    continue;
                }
                let compressed = encoder.try_finish().map(|()| std::mem::take(encoder.get_mut())).unwrap_or_default();
                let is_smaller = !compressed.is_empty() && compressed.len() < message.len();
                let (flag, content) = if is_smaller { (1, &compressed[..]) } else { (0, &message[..]) };
                self.done.push(flag);
                self.done.extend_from_slice(&(content.len() as u32).to_be_bytes());
                self.done.extend_from_slice(content);
                self.current = None;
            } else {
                self.next_message();
            }
        }
        self.share.resize(0);
        Some(std::mem::take(&mut self.done).into())
    }

    /// Starts the next message of the frame, or passes it unchanged.
    fn next_message(&mut self) {
        let length = match self.rest.get(..HEAD) {
            Some(&[0, a, b, c, d]) => u32::from_be_bytes([a, b, c, d]) as usize,
            // Not a complete message: pass the rest unchanged.
            _ => usize::MAX,
        };
        let end = length.saturating_add(HEAD).min(self.rest.len());
        let mut message = self.rest.split_to(end);
        if length < WORTHWHILE || message.len() - HEAD.min(message.len()) != length {
            self.done.extend_from_slice(&message);
            return;
        }
        message.advance(HEAD);
        self.current = Some((message.clone(), message, GzEncoder::new(Vec::new(), Compression::fast())));
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use openskill_identity::shares::Pool;

    use super::*;

    fn framed(flag: u8, content: &[u8]) -> Vec<u8> {
        [&[flag][..], &(content.len() as u32).to_be_bytes(), content].concat()
    }

    #[test]
    fn large_messages_are_compressed_in_turns_and_small_ones_pass() {
        let (pool, small, large) = (Pool::new(512 << 20), framed(0, b"small"), b"abc".repeat(100_000));
        let mut deflate = Deflate::new(LazyShare::new(&pool, None));
        assert!(deflate.take([&small[..], &framed(0, &large), &small].concat().into()));
        assert!(pool.in_use() > large.len());
        let mut turns = 0;
        let out = loop {
            match deflate.step() {
                Some(out) => break out,
                None => turns += 1,
            }
        };
        assert!(turns > 2 && deflate.is_idle() && pool.in_use() == 0);
        let compressed = out.strip_prefix(&small[..]).unwrap().strip_suffix(&small[..]).unwrap();
        assert!(compressed.len() < large.len() / 10);
        assert_eq!(compressed[..HEAD], framed(1, &compressed[HEAD..])[..HEAD]);
        let mut inflated = Vec::new();
        flate2::read::GzDecoder::new(&compressed[HEAD..]).read_to_end(&mut inflated).unwrap();
        assert!(inflated == large);
    }

    #[test]
    fn what_does_not_get_smaller_or_is_no_whole_message_passes() {
        let random: Vec<u8> = (0..4096).map(|_| rand::random()).collect();
        for frame in [framed(0, &random), framed(0, &random)[..99].to_vec(), vec![0, 0], framed(1, &[7; 2000])] {
            let mut deflate = Deflate::new(LazyShare::new(&Pool::new(512 << 20), None));
            assert!(deflate.take(frame.clone().into()));
            assert!(deflate.step().unwrap() == frame);
        }
    }
}
