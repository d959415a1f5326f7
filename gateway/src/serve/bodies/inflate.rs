//! Inflates the messages of a gRPC request that are compressed with gzip.
//!
//! tonic can do that too. It would inflate a message of megabytes in one go on a shard's thread, and keep a buffer as large for
//! each open stream, which nobody accounts for: a small message of a client would cost the gateway a thousand times its size.

use std::io::{self, Write};

use bytes::{Buf as _, Bytes};
use flate2::write::GzDecoder;
use openskill_proto::limits::MAX_REQUEST_BYTES;

/// Why a message can't be inflated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum InflateError {
    #[error("a message has more than {} bytes once it is inflated", MAX_REQUEST_BYTES)]
    TooLarge,
    #[error("a message is marked as compressed, and is not one whole gzip stream")]
    NotGzip,
}

/// The head of a message: a flag, and a length in four bytes.
const HEAD: usize = 5;

/// What a decoder takes beside the message that it makes: its window, its tables and its buffer.
const DECODER: usize = 80 * 1024;

/// How much is inflated before others get their turn. A slice of the input makes at most a megabyte.
const TURN: usize = 128 * 1024;
const SLICE: usize = 1024;

/// Takes what arrives, and gives messages that are not compressed.
pub(super) struct Inflate {
    arrived: Bytes,
    state: State,
}

enum State {
    /// The head of a message, as much as has arrived.
    Head(Vec<u8>),
    /// A message that is not compressed: so many bytes are left of it.
    Plain(usize),
    /// One that is.
    Compressed { left: usize, decoder: Box<GzDecoder<Bounded>> },
}

/// What comes next.
pub(super) enum Step {
    Data(Bytes),
    /// There is more to inflate, after others had their turn.
    Later,
    /// More has to arrive.
    Starving,
}

/// A message with its head, up to the size of the largest request.
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

    /// Takes the next bytes. Nothing may be left of those before: [`Step::Starving`] says so.
    pub(super) fn take(&mut self, bytes: Bytes) {
        self.arrived = bytes;
    }

    /// What the message takes so far.
    pub(super) fn held(&self) -> usize {
        match &self.state {
            State::Compressed { decoder, .. } => DECODER + decoder.get_ref().0.len(),
            State::Head(_) | State::Plain(_) => 0,
        }
    }

    /// Whether a message is incomplete.
    pub(super) fn is_inside(&self) -> bool {
        !matches!(&self.state, State::Head(head) if head.is_empty())
    }

    /// Goes on with what has arrived.
    pub(super) fn step(&mut self) -> Result<Step, InflateError> {
        while !self.arrived.is_empty() {
            match &mut self.state {
                State::Head(head) => {
                    let missing = self.arrived.len().min(HEAD - head.len());
                    head.extend_from_slice(&self.arrived.split_to(missing));
                    if let Some((state, plain)) = after(head)? {
                        self.state = state;
                        if let Some(head) = plain {
                            return Ok(Step::Data(head));
                        }
                    }
                }
                State::Plain(left) => {
                    let piece = self.arrived.split_to(self.arrived.len().min(*left));
                    *left -= piece.len();
                    if *left == 0 {
                        self.state = State::Head(Vec::new());
                    }
                    return Ok(Step::Data(piece));
                }
                State::Compressed { left, decoder } => {
                    let is_late = inflate(&mut self.arrived, left, decoder)?;
                    if *left == 0 {
                        return self.finish().map(Step::Data);
                    }
                    if is_late {
                        return Ok(Step::Later);
                    }
                }
            }
        }
        Ok(Step::Starving)
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

/// What follows a head, once it is complete. If its message is not compressed, the head passes as it is.
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

/// Inflates what has arrived of a message. True if it is another's turn before all of that is done.
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

    /// All that comes out, and the most that was held of a message.
    fn run(input: &[u8], size: usize) -> Result<(Vec<u8>, usize, usize), InflateError> {
        let (mut inflate, mut out, mut most, mut turns) = (Inflate::new(), Vec::new(), 0, 0);
        for piece in input.chunks(size) {
            inflate.take(Bytes::copy_from_slice(piece));
            loop {
                match inflate.step()? {
                    Step::Data(bytes) => out.extend_from_slice(&bytes),
                    Step::Later => turns += 1,
                    Step::Starving => break,
                }
                most = most.max(inflate.held());
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
