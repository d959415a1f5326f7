//! What clients learn of a refusal. The error table of the contract gives each code its statuses.

use openskill_proto::v1::{ErrorCode, SkillError};

use crate::error::AgentError;

/// The error that clients get.
pub(super) fn of(error: &AgentError) -> SkillError {
    match error {
        AgentError::TooManyTurns(_) => SkillError::overloaded(error.to_string()),
        AgentError::Full(bound) if bound.is_transient() => SkillError::overloaded(error.to_string()),
        AgentError::Full(_) => SkillError { retryable: false, ..SkillError::new(error.code(), error.to_string()) },
        AgentError::Shutdown => SkillError::unavailable(error.to_string()),
        // The reason may name files of the host.
        AgentError::Store(_) => {
            tracing::error!(%error, "a request failed");
            SkillError::unavailable("conversations can't be read or written: the log of the agent says why")
        }
        _ => SkillError::new(error.code(), error.to_string()),
    }
}

/// A request that can't be read.
pub(super) fn invalid(message: impl Into<String>) -> SkillError {
    SkillError::new(ErrorCode::InvalidArgument, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Bound;

    #[test]
    fn a_full_disk_is_reported_without_paths() {
        let error = of(&AgentError::Store("/home/me/agent.redb: no space left".to_owned()));
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
            assert_eq!(of(&error).retryable, retryable, "{error}");
        }
    }
}
