//! What a user sends to a conversation.

use openskill_proto::v1;

/// What a user sends.
#[derive(Debug, Clone, PartialEq)]
pub enum Input {
    /// Begins a turn.
    Message(v1::UserMessage),
    /// Answers a question.
    Answers(v1::UserAnswers),
    /// Decides about a call.
    Decision(v1::UserDecision),
    /// Ends the turn.
    Cancel,
}

impl Input {
    /// The request of a call that it lets go on.
    pub(crate) fn permits(&self) -> Option<&str> {
        match self {
            Self::Answers(it) if !it.declined => Some(&it.request_id),
            Self::Decision(it) if it.decision() != v1::Decision::Deny => Some(&it.request_id),
            _ => None,
        }
    }
}
