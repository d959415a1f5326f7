//! The interface of a wire format: the body of a request, and a fold over the frames of an answer. Does no I/O.

use std::fmt;

use openskill_proto::v1::Dialect;
use openskill_text::sse::{DecodeError, SseDecoder};
use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use crate::failure::ProviderError;
use crate::frames::{Frame, MAX_FRAME_BYTES};
use crate::message::Message;
use crate::model::{ModelRequest, ModelResponse};

/// A wire format for one model.
pub(crate) trait Wire: fmt::Debug + Send + Sync {
    /// Returns the format of tool definitions.
    fn dialect(&self) -> Dialect;

    /// Returns the body of a request. `with_opaque` tells whether to return the opaque data of earlier calls.
    fn body(&self, request: &ModelRequest, with_opaque: bool) -> Vec<u8>;

    /// Starts reading an answer.
    fn fold(&self) -> Box<dyn Fold>;
}

/// Reads an answer frame by frame.
pub(crate) trait Fold: Send {
    /// Adds a frame and passes its text to `text`.
    ///
    /// # Errors
    /// The frame can't be read: see [`WireError`]. No more frames can be added.
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), WireError>;

    /// Returns whether the answer is complete. Later frames are not part of it.
    fn is_over(&self) -> bool;

    /// Returns the complete answer, and passes on the rest of its text. Call it once the body has ended or
    /// [`Fold::is_over`] returns true.
    ///
    /// # Errors
    /// [`WireError::CutOff`] if the answer is incomplete.
    fn finish(self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<ModelResponse, WireError>;
}

/// Why an answer can't be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WireError {
    /// The bytes are not server-sent events.
    Frames(DecodeError),
    /// The answer ended before it was complete.
    CutOff,
    /// The frames violate the format, or don't form an answer.
    Malformed(String),
    /// The provider reported an error.
    Failed(ProviderError),
}

impl WireError {
    /// Converts an event that reports a failure.
    pub(crate) fn from_error_event(json: &str) -> Self {
        Self::Failed(ProviderError::from_json(json).unwrap_or_else(|| ProviderError::from_text("")))
    }

    /// Returns the error for a frame that is not the JSON that the format requires.
    pub(crate) fn from_json_error(error: &serde_json::Error) -> Self {
        // The error's text may quote content, so it is not used.
        Self::Malformed(match error.classify() {
            serde_json::error::Category::Data => {
                "an event has a field of a different type than the protocol specifies".to_owned()
            }
            _ => format!("an event is not JSON, at its column {}", error.column()),
        })
    }
}

/// An answer that is still arriving, independent of chunk boundaries.
pub(crate) struct Reader {
    decoder: SseDecoder,
    fold: Box<dyn Fold>,
}

impl Reader {
    pub(crate) fn new(fold: Box<dyn Fold>) -> Self {
        Self { decoder: SseDecoder::new(MAX_FRAME_BYTES), fold }
    }

    /// Adds bytes and passes on the text in them. Returns whether the answer is complete. Later bytes are not part
    /// of it.
    ///
    /// # Errors
    /// The bytes can't be read: see [`WireError`]. No more bytes can be added.
    pub(crate) fn take(&mut self, bytes: &[u8], text: &mut dyn FnMut(&str)) -> Result<bool, WireError> {
        let events = self.decoder.take(bytes).map_err(WireError::Frames)?;
        for frame in events.into_iter().filter_map(Frame::from_event) {
            self.fold.take(&frame, text)?;
            if self.fold.is_over() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the complete answer. Call it once the body has ended or [`Reader::take`] has returned true.
    ///
    /// # Errors
    /// The answer ended too early, or its end contains an error.
    pub(crate) fn end(mut self, text: &mut dyn FnMut(&str)) -> Result<ModelResponse, WireError> {
        let last = if self.fold.is_over() { None } else { self.decoder.end().unwrap_or_default() };
        match last.and_then(Frame::from_event).map_or(Ok(()), |frame| self.fold.take(&frame, text)) {
            // Only the beginning of this event arrived.
            Err(WireError::Malformed(_)) => Err(WireError::CutOff),
            Err(error) => Err(error),
            Ok(()) => self.fold.finish(text),
        }
    }
}

/// The fields of a JSON object, in order. Numbers in raw values keep all their digits.
#[derive(Default)]
pub(crate) struct Fields(Vec<(&'static str, Box<RawValue>)>);

impl Fields {
    /// Begins a message of a conversation.
    pub(crate) fn message(role: &str, content: impl Serialize) -> Self {
        Self::default().with("role", role).with("content", content)
    }

    /// Adds a field, unless its value is null.
    pub(crate) fn with(mut self, name: &'static str, value: impl Serialize) -> Self {
        let value = raw(value);
        if value.get() != "null" {
            self.0.push((name, value));
        }
        self
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Serializes plain data, which can't fail.
pub(crate) fn raw(value: impl Serialize) -> Box<RawValue> {
    to_raw_value(&value).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// A message in a format whose roles must alternate.
pub(crate) struct RoleMessage {
    pub(crate) role: &'static str,
    pub(crate) parts: Vec<Box<RawValue>>,
}

/// Adds a message, or merges it into the last one if both have the same role.
pub(crate) fn add_parts(messages: &mut Vec<RoleMessage>, role: &'static str, parts: Vec<Box<RawValue>>) {
    match messages.last_mut() {
        _ if parts.is_empty() => {}
        Some(last) if last.role == role => last.parts.extend(parts),
        _ => messages.push(RoleMessage { role, parts }),
    }
}

/// Returns the tool definitions unchanged, or `None` if there are none. Definitions that are not JSON are left out,
/// but exports never produce such definitions.
pub(crate) fn tools(request: &ModelRequest) -> Option<Vec<&RawValue>> {
    let tools: Vec<_> = request.tools.iter().filter_map(|tool| serde_json::from_str(tool).ok()).collect();
    (!tools.is_empty()).then_some(tools)
}

/// Returns the index of the first message after the current turn's user message.
pub(crate) fn turn_start(messages: &[Message]) -> usize {
    messages.iter().rposition(|it| matches!(it, Message::User(_))).map_or(0, |user| user + 1)
}
