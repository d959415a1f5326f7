//! What a wire format is: a request as text, and a fold of an answer's frames. Pure.

use std::fmt;

use openskill_proto::v1::Dialect;
use serde_json::value::RawValue;

use super::failure::Said;
use super::frames::Frame;
use super::model::{Reply, Request};
use crate::message::Message;

/// A wire format, for one model.
pub(super) trait Wire: fmt::Debug + Send + Sync {
    /// The format of tool definitions.
    fn dialect(&self) -> Dialect;

    /// The request's body. `kept` is whether what the model gave with its calls is sent back.
    fn body(&self, request: &Request, kept: bool) -> Vec<u8>;

    /// Begins to read an answer.
    fn fold(&self) -> Box<dyn Fold>;
}

/// Reads an answer, frame by frame.
pub(super) trait Fold: Send {
    /// Takes the next frame, and hands on the text in it.
    ///
    /// # Errors
    /// [`Fault`]. No further frame is taken.
    fn take(&mut self, frame: &Frame, text: &mut dyn FnMut(&str)) -> Result<(), Fault>;

    /// Whether the end of the answer came: nothing that follows is part of it.
    fn is_over(&self) -> bool;

    /// The whole answer, and the rest of its text. The body ended, or [`Fold::is_over`].
    ///
    /// # Errors
    /// [`Fault::CutOff`] if the end did not come.
    fn finish(self: Box<Self>, text: &mut dyn FnMut(&str)) -> Result<Reply, Fault>;
}

/// Why frames are no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The answer ended too early.
    CutOff,
    /// The frames are not what the format promises, or can't be put together.
    Malformed(String),
    /// The provider says that it failed.
    Failed(Said),
}

impl Fault {
    /// A frame that is not the JSON that the format promises.
    pub(super) fn of_json(error: &serde_json::Error) -> Self {
        // Its own text may quote contents.
        Self::Malformed(match error.classify() {
            serde_json::error::Category::Data => {
                "an event has a field of another type than the protocol says".to_owned()
            }
            _ => format!("an event is not JSON, at its column {}", error.column()),
        })
    }
}

/// Tool definitions, as they are. One that is not JSON is left out: it never comes from an export.
pub(super) fn tools(request: &Request) -> Vec<&RawValue> {
    request.tools.iter().filter_map(|tool| serde_json::from_str(tool).ok()).collect()
}

/// Where the current turn begins: after the user's last message.
pub(super) fn turn_start(messages: &[Message]) -> usize {
    messages.iter().rposition(|it| matches!(it, Message::User(_))).map_or(0, |user| user + 1)
}
