//! Reads the bytes of an answer into a reply, whatever chunks they arrive in. Pure.

use super::frames::{FrameError, Frames};
use super::model::Reply;
use super::wire::{Fault, Fold};

/// An answer so far.
pub(super) struct Reader {
    frames: Frames,
    fold: Box<dyn Fold>,
}

/// Why bytes are no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ReadError {
    /// They are no events.
    Frames(FrameError),
    /// Their events are no answer.
    Fold(Fault),
}

impl From<Fault> for ReadError {
    fn from(fault: Fault) -> Self {
        Self::Fold(fault)
    }
}

impl Reader {
    pub(super) fn new(fold: Box<dyn Fold>) -> Self {
        Self { frames: Frames::default(), fold }
    }

    /// Takes the next bytes, and hands on the text in them. Says whether the answer is complete: what follows is no part
    /// of it.
    ///
    /// # Errors
    /// [`ReadError`]. No more bytes are taken.
    pub(super) fn take(&mut self, bytes: &[u8], text: &mut dyn FnMut(&str)) -> Result<bool, ReadError> {
        for frame in self.frames.take(bytes).map_err(ReadError::Frames)? {
            self.fold.take(&frame, text)?;
            if self.fold.is_over() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The whole answer. The body ended, or [`Reader::take`] said that it is complete.
    ///
    /// # Errors
    /// The answer ended too early, or failed at its end.
    pub(super) fn end(mut self, text: &mut dyn FnMut(&str)) -> Result<Reply, Fault> {
        let last = if self.fold.is_over() { None } else { self.frames.end() };
        match last.map_or(Ok(()), |frame| self.fold.take(&frame, text)) {
            // Only its beginning came.
            Err(Fault::Malformed(_)) => Err(Fault::CutOff),
            Err(fault) => Err(fault),
            Ok(()) => self.fold.finish(text),
        }
    }
}
