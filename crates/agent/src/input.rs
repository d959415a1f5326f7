//! User inputs to a conversation.

use openskill_proto::v1;

/// A user input.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// A message that begins a turn.
    Message(v1::UserMessage),
    /// Answers to questions.
    Answers(v1::UserAnswers),
    /// A decision about a call.
    Decision(v1::UserDecision),
    /// Cancels the turn.
    Cancel,
}

impl Input {
    /// Returns the id of the request that this input answers or decides about.
    pub(crate) fn request_id(&self) -> Option<&str> {
        match self {
            Self::Answers(it) => Some(&it.request_id),
            Self::Decision(it) => Some(&it.request_id),
            Self::Message(_) | Self::Cancel => None,
        }
    }

    /// Returns the id of the request whose call may continue after this input, or `None` if no call may continue.
    pub(crate) fn permits(&self) -> Option<&str> {
        match self {
            Self::Answers(it) if !it.declined => Some(&it.request_id),
            Self::Decision(it) if it.decision() != v1::Decision::Deny => Some(&it.request_id),
            _ => None,
        }
    }
}
