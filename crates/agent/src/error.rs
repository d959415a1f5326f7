//! The errors with which the agent rejects a request.

use openskill_proto::v1::ErrorCode;

/// Why a request was rejected. A rejected request changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// The conversation does not exist, or belongs to another principal.
    #[error(
        "there is no such conversation: it expired, was deleted, or never began; leave conversation_id empty to begin one"
    )]
    NoConversation,
    /// A field of the request is invalid. The message names the field and says how to fix it.
    #[error("{0}")]
    Invalid(String),
    /// The request's credential is no longer valid.
    #[error("the key or token of this request was revoked or has expired: send it again with a valid one")]
    Revoked,
    /// The request's credential may not make this decision or give this answer: it does not permit the call or,
    /// for a question that the agent itself asks, another credential began the turn.
    #[error(
        "the key or token of this request may not make this decision: use one that may call the skill or, for a question of the \
         agent itself, the one that began the turn"
    )]
    Forbidden,
    /// A turn of this conversation is still running or waiting.
    #[error("a turn of this conversation is already running: wait for its `done` event, or cancel it")]
    Busy,
    /// Another gateway runs a turn of this conversation, or has just written to it.
    #[error(
        "another gateway runs a turn of this conversation: wait for its `done` or `waiting` event, then send again"
    )]
    Elsewhere,
    /// The turn is not waiting for this answer or decision.
    #[error("no request is waiting for this answer: the request was answered, has expired, or never existed")]
    NotWaiting,
    /// Too many turns are running, either in total or for this principal.
    #[error(
        "too many turns are running: the limit is {0}, shared fairly among principals. Wait until one of your turns ends, or try again later"
    )]
    TooManyTurns(usize),
    /// A space limit is reached.
    #[error("{0}")]
    Full(Bound),
    /// The store can't be read or written, for example because the disk is full.
    #[error("conversations can't be written: {0}")]
    Store(String),
    /// The agent is shutting down.
    #[error("the agent is shutting down: try again later")]
    Shutdown,
}

impl AgentError {
    /// Returns the error code for clients.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoConversation => ErrorCode::NotFound,
            Self::Invalid(_) | Self::NotWaiting => ErrorCode::InvalidArgument,
            Self::Revoked => ErrorCode::Unauthenticated,
            Self::Forbidden => ErrorCode::PermissionDenied,
            Self::Busy | Self::Elsewhere => ErrorCode::ConversationBusy,
            Self::TooManyTurns(_) | Self::Full(_) => ErrorCode::Overloaded,
            Self::Store(_) | Self::Shutdown => ErrorCode::Unavailable,
        }
    }
}

/// A space limit. Principals share the space fairly, so that none can lock out another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Bound {
    /// The maximum number of conversations.
    #[error("your share of stored conversations is used up: delete conversations")]
    Conversations,
    /// The maximum total size of all conversations.
    #[error("your share of conversation storage is used up: delete conversations")]
    Bytes,
    /// The maximum size or number of events of this conversation.
    #[error("this conversation has reached its maximum length: begin a new one")]
    Conversation,
    /// The maximum size of one event.
    #[error("this exceeds the maximum size of a conversation event")]
    Event,
    /// The maximum size of all secrets in memory.
    #[error("your share of memory for secrets is used up: delete conversations that contain secrets")]
    Secrets,
    /// The maximum memory for running turns.
    #[error(
        "your share of memory for turns is used up: wait until one of your turns ends, or begin a shorter conversation"
    )]
    Memory,
}

/// The maximum length of a message text, in bytes.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Checks the text that begins a turn. `name` is the name of the request field.
///
/// # Errors
/// The text is empty or too long.
pub(crate) fn check_text(name: &str, text: &str) -> Result<(), AgentError> {
    if text.trim().is_empty() {
        return Err(AgentError::Invalid(format!("{name} is empty")));
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(AgentError::Invalid(format!("{name} exceeds {MAX_TEXT_BYTES} bytes")));
    }
    Ok(())
}
