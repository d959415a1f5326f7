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
    /// The decision or answer is for a call that the credential of the request does not allow.
    #[error("the key or token of this request may not call that skill: decide with one that may")]
    Forbidden,
    /// A turn runs.
    #[error("a turn of this conversation runs: wait for its `done`, or cancel it")]
    Busy,
    /// Nothing waits for this answer or decision.
    #[error("nothing waits for this: the request was answered, expired, or never was")]
    NotWaiting,
    /// Too many turns run.
    #[error("{0} turns run, as many as allowed: try again later")]
    TooManyTurns(usize),
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
            Self::TooManyTurns(_) => ErrorCode::Overloaded,
            Self::Store(_) | Self::Shutdown => ErrorCode::Unavailable,
        }
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
