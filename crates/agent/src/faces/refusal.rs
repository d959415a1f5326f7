//! Converts agent errors into errors for clients. The contract's error table maps each code to HTTP and gRPC
//! statuses.

use openskill_proto::v1::{ErrorCode, SkillError};

use crate::error::{AgentError, Bound};

/// Converts an agent error into the error that clients receive.
impl From<AgentError> for SkillError {
    fn from(error: AgentError) -> Self {
        match error {
            // Only this space can become free without deleting a conversation.
            AgentError::TooManyTurns(_) | AgentError::Full(Bound::Memory) => Self::overloaded(error.to_string()),
            AgentError::Full(_) => Self { retryable: false, ..Self::new(error.code(), error.to_string()) },
            AgentError::Shutdown => Self::unavailable(error.to_string()),
            // The reason may contain file names of this host, so it is hidden from clients.
            AgentError::Store(_) => {
                tracing::error!(%error, "a request failed");
                Self::unavailable("conversations can't be read or written: see the agent's log")
            }
            _ => Self::new(error.code(), error.to_string()),
        }
    }
}

/// Returns the error for a malformed request.
pub(super) fn invalid(message: impl Into<String>) -> SkillError {
    SkillError::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_reported_without_paths() {
        let error = SkillError::from(AgentError::Store("/home/me/agent.redb: no space left".to_owned()));
        assert_eq!(error.code(), ErrorCode::Unavailable);
        assert!(error.retryable && !error.message.contains("/home"), "{}", error.message);
    }

    #[test]
    fn only_what_may_succeed_later_is_retryable() {
        for (error, retryable) in [
            (AgentError::TooManyTurns(1), true),
            (AgentError::Full(Bound::Memory), true),
            (AgentError::Full(Bound::Bytes), false),
            (AgentError::Full(Bound::Conversations), false),
            (AgentError::Shutdown, true),
            (AgentError::Busy, false),
            (AgentError::NoConversation, false),
            (AgentError::Invalid(String::new()), false),
        ] {
            assert_eq!(SkillError::from(error.clone()).retryable, retryable, "{error}");
        }
    }
}
