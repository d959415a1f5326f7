//! What every model provider offers: one question, one streamed answer.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use openskill_proto::v1::Dialect;

use crate::message::{Message, ModelCall, Tokens};

/// A model of a provider.
pub trait Model: fmt::Debug + Send + Sync {
    /// `provider:model`, for people.
    fn name(&self) -> &str;

    /// The format of tool definitions that it reads.
    fn dialect(&self) -> Dialect;

    /// The host and the port that it is asked at, if it is elsewhere.
    fn server(&self) -> Option<(String, u16)> {
        None
    }

    /// Asks the model, and hands on its text as it comes.
    ///
    /// Dropping the future closes the connection. No call is handed on before the stream ended as the protocol says it
    /// ends.
    ///
    /// # Errors
    /// [`ModelError`]. Text may have been handed on before.
    fn ask<'a>(
        &'a self,
        request: &'a Request,
        text: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<Reply, ModelError>>;
}

/// What to ask a model.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// Instructions.
    pub system: String,
    /// The conversation. Begins with a user's message; each assistant's message with calls is followed by its results.
    pub messages: Vec<Message>,
    /// Tool definitions in the model's dialect, each a JSON object as text.
    pub tools: Vec<String>,
    /// Whether the model may call tools. If not, they are still sent, and the provider is told that none may be called:
    /// some providers ignore that.
    pub may_call: bool,
    /// Tokens that the answer may have, those of its reasoning included. 0 leaves it to the provider.
    pub max_tokens: u32,
    /// Whether calls of known tools that the model writes as plain text count as calls. See `docs/agent-providers.md`.
    pub text_calls: bool,
}

/// A model's whole answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reply {
    /// Its text.
    pub text: String,
    /// Its calls, in order. Ids may be empty or equal: the agent makes them unique.
    pub calls: Vec<ModelCall>,
    /// What it used. Zero if the provider did not say.
    pub tokens: Tokens,
    /// Why it stopped.
    pub stop: Stop,
}

/// Why a model stopped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stop {
    /// It was done, or it waits for the results of its calls.
    #[default]
    Done,
    /// [`Request::max_tokens`] was reached. The last call may be incomplete, and is left out if its arguments are.
    Length,
    /// The provider refused or filtered the answer.
    Refused,
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The provider could not be reached, or the connection was lost.
    #[error("{provider} could not be reached: {reason}")]
    Unreachable {
        /// The provider.
        provider: String,
        /// What happened, without contents and credentials.
        reason: String,
    },
    /// The provider answered with a status that is no success.
    #[error("{provider} answered {status}: {reason}")]
    Refused {
        /// The provider.
        provider: String,
        /// The HTTP status.
        status: u16,
        /// The provider's message, at most 512 bytes, printable, without credentials.
        reason: String,
        /// When to ask again, if the provider said.
        retry_after: Option<Duration>,
    },
    /// The stream ended before the answer did.
    #[error("the answer of {provider} was cut off")]
    CutOff {
        /// The provider.
        provider: String,
    },
    /// The answer is not the stream that the protocol promises.
    #[error("the answer of {provider} could not be read: {reason}")]
    Malformed {
        /// The provider.
        provider: String,
        /// What was wrong, without contents.
        reason: String,
    },
    /// The stream is not what the protocol promises, or its parts can't be put together.
    #[error("the answer of {provider} could not be put together: {reason}")]
    Unreadable {
        /// The provider.
        provider: String,
        /// What was wrong, without contents.
        reason: String,
    },
    /// The answer exceeds a bound.
    #[error("the answer of {provider} exceeds {bound} bytes")]
    TooLarge {
        /// The provider.
        provider: String,
        /// The bound.
        bound: usize,
    },
}

impl ModelError {
    /// Whether the same request may succeed soon: lost connections, streams that were cut or
    /// can't be read, 408, 429, 500, 502, 503, 504 and 529.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::CutOff { .. } | Self::Unreadable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 500 | 502..=504 | 529),
            Self::Malformed { .. } | Self::TooLarge { .. } => false,
        }
    }
}
