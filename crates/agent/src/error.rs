//! Why the agent refuses a request.

use openskill_proto::v1::ErrorCode;

/// Why a request is refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AgentError {
    /// There is no such conversation, or it belongs to another principal.
    #[error(
        "there is no such conversation: it expired, was deleted, or never began; leave conversation_id empty to begin one"
    )]
    NoConversation,
    /// A field of the request is not valid. Says which, and what to do.
    #[error("{0}")]
    Invalid(String),
    /// The credential of the request has ended.
    #[error("the key or token of this request was revoked or has expired: send it again with a valid one")]
    Revoked,
    /// The decision or answer is for a call that the credential of the request does not allow, or answers the agent's own
    /// question, and another credential began the turn.
    #[error(
        "the key or token of this request may not decide that: use one that may call the skill or, for a question of the \
         agent itself, the one that began the turn"
    )]
    Forbidden,
    /// A turn runs.
    #[error("a turn of this conversation runs: wait for its `done`, or cancel it")]
    Busy,
    /// Nothing waits for this answer or decision.
    #[error("nothing waits for this: the request was answered, expired, or never was")]
    NotWaiting,
    /// Too many turns run, in all or of this principal.
    #[error(
        "too many turns run: {0} in all, shared fairly among principals. Wait until one of yours ends, or try again later"
    )]
    TooManyTurns(usize),
    /// There is no room for it.
    #[error("{0}")]
    Full(Bound),
    /// The store is full, or can't be written.
    #[error("conversations can't be written: {0}")]
    Store(String),
    /// The agent shuts down.
    #[error("the agent shuts down: try again later")]
    Shutdown,
}

impl AgentError {
    /// The code that clients get.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::NoConversation => ErrorCode::NotFound,
            Self::Invalid(_) | Self::NotWaiting => ErrorCode::InvalidArgument,
            Self::Revoked => ErrorCode::Unauthenticated,
            Self::Forbidden => ErrorCode::PermissionDenied,
            Self::Busy => ErrorCode::ConversationBusy,
            Self::TooManyTurns(_) | Self::Full(_) => ErrorCode::Overloaded,
            Self::Store(_) | Self::Shutdown => ErrorCode::Unavailable,
        }
    }
}

/// What is full. Principals share it fairly, so that none is locked out by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Bound {
    /// The number of conversations.
    #[error("your share of the conversations that are kept is full: delete conversations")]
    Conversations,
    /// The bytes of all conversations.
    #[error("your share of the space for conversations is full: delete conversations")]
    Bytes,
    /// The bytes or events of this conversation.
    #[error("this conversation is as long as one may be: begin a new one")]
    Conversation,
    /// The bytes of one event.
    #[error("this is larger than one event of a conversation may be")]
    Event,
    /// The bytes of secrets that are in memory.
    #[error("your share of the memory for secrets is full: delete conversations that hold secrets")]
    Secrets,
    /// The memory of the turns that run.
    #[error(
        "your share of the memory for turns is full: wait until a turn of yours ends, or begin a shorter conversation"
    )]
    Memory,
}

impl Bound {
    /// Whether it may have room later, though nobody deletes anything.
    pub fn is_transient(self) -> bool {
        self == Self::Memory
    }
}

/// The longest text of a message, in bytes.
const MAX_TEXT_BYTES: usize = 256 * 1024;

/// Checks the text that begins a turn. `name`: what it is in the request.
///
/// # Errors
/// It is empty, or too long.
pub(crate) fn check_text(name: &str, text: &str) -> Result<(), AgentError> {
    if text.trim().is_empty() {
        return Err(AgentError::Invalid(format!("{name} is empty")));
    }
    if text.len() > MAX_TEXT_BYTES {
        return Err(AgentError::Invalid(format!("{name} exceeds {MAX_TEXT_BYTES} bytes")));
    }
    Ok(())
}
