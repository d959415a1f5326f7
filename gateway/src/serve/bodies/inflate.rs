//! Decompresses gRPC request messages that use gzip.
//!
//! tonic can also decompress messages, but it would decompress a message of megabytes at once on a shard's thread,
//! and keep an equally large buffer for each open stream, which no share accounts for. A small message would cost
//! the gateway a thousand times its size.

use std::io::{self, Write};

use bytes::{Buf as _, Bytes};
use flate2::write::GzDecoder;
use openskill_proto::limits::MAX_REQUEST_BYTES;

/// Why a message can't be decompressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InflateError {
    #[error("a message has more than {} bytes once it is inflated", MAX_REQUEST_BYTES)]
    TooLarge,
    #[error("a message is marked as compressed, but is not one complete gzip stream")]
    NotGzip,
}

/// The size of a message head: a flag, and a 4-byte length.
const HEAD: usize = 5;

/// The memory of a decoder without its output: window, tables and buffer, in bytes.
const DECODER: usize = 80 * 1024;

/// The number of bytes to decompress before the task yields. A slice of the input expands to at most a megabyte.
const TURN: usize = 128 * 1024;
const SLICE: usize = 1024;

/// Decompresses a stream of messages.
pub(super) struct Inflate {
    arrived: Bytes,
    state: State,
}

enum State {
    /// The bytes of a message head that have arrived so far.
    Head(Vec<u8>),
    /// An uncompressed message, with the number of remaining bytes.
    Plain(usize),
    /// A compressed message, with the number of remaining bytes.
    Compressed { left: usize, decoder: Box<GzDecoder<Bounded>> },
}

/// The result of one step.
pub(super) enum InflateStep {
    Data(Bytes),
    /// More output is available, but the task should yield first.
    Later,
    /// More input is needed.
    Starving,
}

/// A message with its head. Writing fails if it exceeds the maximum request size.
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > HEAD + MAX_REQUEST_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Inflate {
    pub(super) fn new() -> Self {
        Self { arrived: Bytes::new(), state: State::Head(Vec::new()) }
    }

    /// Takes the next bytes. Call it only after [`Self::step`] returned [`InflateStep::Starving`]: all earlier
    /// bytes must be consumed.
    pub(super) fn take(&mut self, bytes: Bytes) {
        self.arrived = bytes;
    }

    /// The memory of the incomplete message, in bytes.
    pub(super) fn buffered_bytes(&self) -> usize {
        match &self.state {
            State::Compressed { decoder, .. } => DECODER + decoder.get_ref().0.len(),
            State::Head(_) | State::Plain(_) => 0,
        }
    }

    /// Whether part of a message is missing.
    pub(super) fn is_inside(&self) -> bool {
        !matches!(&self.state, State::Head(head) if head.is_empty())
    }

    /// Decompresses what has arrived, up to one turn.
    pub(super) fn step(&mut self) -> Result<InflateStep, InflateError> {
        while !self.arrived.is_empty() {
            match &mut self.state {
                State::Head(head) => {
                    let missing = self.arrived.len().min(HEAD - head.len());
                    head.extend_from_slice(&self.arrived.split_to(missing));
                    if let Some((state, plain)) = after(head)? {
                        self.state = state;
                        if let Some(head) = plain {
                            return Ok(InflateStep::Data(head));
                        }
                    }
                }
                State::Plain(left) => {
                    let piece = self.arrived.split_to(self.arrived.len().min(*left));
                    *left -= piece.len();
                    if *left == 0 {
                        self.state = State::Head(Vec::new());
                    }
                    return Ok(InflateStep::Data(piece));
                }
                State::Compressed { left, decoder } => {
                    let is_late = inflate(&mut self.arrived, left, decoder)?;
                    if *left == 0 {
                        return self.finish().map(InflateStep::Data);
                    }
                    if is_late {
                        return Ok(InflateStep::Later);
                    }
                }
            }
        }
        Ok(InflateStep::Starving)
    }

    fn finish(&mut self) -> Result<Bytes, InflateError> {
        let State::Compressed { decoder, .. } = std::mem::replace(&mut self.state, State::Head(Vec::new())) else {
            return Err(InflateError::NotGzip);
        };
        let mut message = decoder.finish().map_err(|error| fault(&error))?.0;
        let length = (message.len() - HEAD) as u32;
        message[1..HEAD].copy_from_slice(&length.to_be_bytes());
        Ok(message.into())
    }
}

/// Returns the state that follows a complete head. None if the head is incomplete. Passes the head of an
/// uncompressed message on unchanged.
fn after(head: &[u8]) -> Result<Option<(State, Option<Bytes>)>, InflateError> {
    let [flag, length @ ..] = head else { return Ok(None) };
    let Ok(length) = length.try_into() else { return Ok(None) };
    let left = u32::from_be_bytes(length) as usize;
    if *flag != 1 {
        let state = if left == 0 { State::Head(Vec::new()) } else { State::Plain(left) };
        return Ok(Some((state, Some(Bytes::copy_from_slice(head)))));
    }
    match left {
        0 => Err(InflateError::NotGzip),
        _ if left > MAX_REQUEST_BYTES => Err(InflateError::TooLarge),
        _ => {
            let decoder = Box::new(GzDecoder::new(Bounded(vec![0; HEAD])));
            Ok(Some((State::Compressed { left, decoder }, None)))
        }
    }
}

/// Decompresses the bytes of a message that have arrived. Returns true if the task should yield before they are
/// consumed.
fn inflate(arrived: &mut Bytes, left: &mut usize, decoder: &mut GzDecoder<Bounded>) -> Result<bool, InflateError> {
    let before = decoder.get_ref().0.len();
    while *left > 0 && arrived.has_remaining() {
        let slice = arrived.split_to(arrived.len().min(*left).min(SLICE));
        decoder.write_all(&slice).map_err(|error| fault(&error))?;
        *left -= slice.len();
        if decoder.get_ref().0.len() - before >= TURN {
            return Ok(true);
        }
    }
    Ok(false)
}

fn fault(error: &io::Error) -> InflateError {
    if error.kind() == io::ErrorKind::FileTooLarge { InflateError::TooLarge } else { InflateError::NotGzip }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn framed(flag: u8, content: &[u8]) -> Vec<u8> {
        [&[flag][..], &(content.len() as u32).to_be_bytes(), content].concat()
    }

    fn gzip(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(content).unwrap();
        encoder.finish().unwrap()
    }

    /// Returns the whole output, and the size of the largest message buffer.
    fn run(input: &[u8], size: usize) -> Result<(Vec<u8>, usize, usize), InflateError> {
        let (mut inflate, mut out, mut most, mut turns) = (Inflate::new(), Vec::new(), 0, 0);
        for piece in input.chunks(size) {
            inflate.take(Bytes::copy_from_slice(piece));
            loop {
                match inflate.step()? {
                    InflateStep::Data(bytes) => out.extend_from_slice(&bytes),
                    InflateStep::Later => turns += 1,
                    InflateStep::Starving => break,
                }
                most = most.max(inflate.buffered_bytes());
            }
        }
        assert!(!inflate.is_inside());
        Ok((out, most, turns))
    }

    #[test]
    fn messages_are_inflated_however_they_are_split_and_others_pass() {
        let (small, large) = (b"hello hello hello".as_slice(), b"abc".repeat(50_000));
        let input = [framed(1, &gzip(small)), framed(0, small), framed(0, b""), framed(1, &gzip(&large))].concat();
        let expected = [framed(0, small), framed(0, small), framed(0, b""), framed(0, &large)].concat();
        for size in [1, 2, 3, 7, 64, input.len()] {
            assert!(run(&input, size).unwrap().0 == expected, "in pieces of {size}");
        }
    }

    #[test]
    fn a_bomb_is_refused_before_it_is_larger_than_the_largest_request() {
        let bomb = gzip(&vec![0; 64 * 1024 * 1024]);
        assert!(bomb.len() < 100_000, "{}", bomb.len());
        assert!(matches!(run(&framed(1, &bomb), 4096), Err(InflateError::TooLarge)));
        let most = gzip(&vec![0; MAX_REQUEST_BYTES]);
        let (out, held, turns) = run(&framed(1, &most), most.len() + HEAD).unwrap();
        assert_eq!(out.len(), HEAD + MAX_REQUEST_BYTES);
        assert!(held <= DECODER + HEAD + MAX_REQUEST_BYTES && turns > 3, "{held} bytes, {turns} turns");
    }

    #[test]
    fn what_is_not_one_whole_gzip_stream_is_refused() {
        let whole = gzip(b"hello");
        for content in [b"hello".as_slice(), &whole[..whole.len() - 1], &[&whole[..], b"x"].concat(), b""] {
            assert!(matches!(run(&framed(1, content), 64), Err(InflateError::NotGzip)), "{content:?}");
        }
        assert!(matches!(run(&[1, 255, 255, 255, 255], 5), Err(InflateError::TooLarge)));
    }
}
