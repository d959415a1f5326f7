//! The interface of all model providers: a request, and a streamed answer.

use std::fmt;
use std::time::Duration;

use futures_util::future::BoxFuture;
use openskill_proto::v1::Dialect;
use serde::{Deserialize, Serialize};

use crate::message::{Message, ModelCall, Tokens};

/// A model of a provider.
pub trait Model: fmt::Debug + Send + Sync {
    /// Returns the display name, as `provider:model`.
    fn name(&self) -> &str;

    /// Returns the format of tool definitions that the model expects.
    fn dialect(&self) -> Dialect;

    /// Returns the host and port of the server, or `None` if the model has no server.
    fn server(&self) -> Option<(String, u16)> {
        None
    }

    /// Sends a request to the model, and passes its text to `text` as it arrives.
    ///
    /// Dropping the future closes the connection. Calls are returned only once the stream has ended in accordance with the
    /// protocol.
    ///
    /// # Errors
    /// The request failed: see [`ModelError`]. Some text may have already been passed on.
    fn ask<'a>(
        &'a self,
        request: &'a ModelRequest,
        text: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>>;
}

/// A request to a model: the conversation, the tools, and limits.
#[derive(Debug, Clone, Default)]
pub struct ModelRequest {
    /// The system prompt.
    pub system: String,
    /// The conversation. The first message is a user message, and each assistant message with calls is followed by
    /// its results.
    pub messages: Vec<Message>,
    /// Tool definitions in the model's dialect, each as a JSON object.
    pub tools: Vec<String>,
    /// Whether the model may call tools. If not, the definitions are still sent, and the request forbids calls,
    /// although some providers ignore this.
    pub may_call: bool,
    /// The maximum number of tokens in the answer, including reasoning. 0 means the provider's default.
    pub max_tokens: u32,
    /// The sampling temperature. `None` means the provider's default, which reasoning models require.
    pub temperature: Option<f32>,
    /// Whether to execute calls of known tools that the model writes as plain text. See `docs/agent-providers.md`.
    pub text_calls: bool,
}

/// The complete answer of a model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelResponse {
    /// The text of the answer.
    pub text: String,
    /// The calls in order. Ids may be empty or duplicate, because the agent makes them unique.
    pub calls: Vec<ModelCall>,
    /// The token usage. Zero if the provider did not report it.
    pub tokens: Tokens,
    /// Why the model stopped writing.
    pub stop: StopReason,
}

/// Why a model stopped. Agents store the reason under these names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The answer is complete, or the model waits for the results of its calls.
    #[default]
    #[serde(rename = "no")]
    Done,
    /// [`ModelRequest::max_tokens`] was reached. The last call is dropped if its arguments are incomplete.
    Length,
    /// The provider rejected or filtered the answer.
    Refused,
}

/// Why a model request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The provider is unreachable, or the connection was lost.
    #[error("{provider} could not be reached: {reason}")]
    Unreachable {
        /// The provider name.
        provider: String,
        /// What happened, without content or credentials.
        reason: String,
    },
    /// The provider responded with a failure status.
    #[error("{provider} answered {status}: {reason}")]
    Refused {
        /// The provider name.
        provider: String,
        /// The HTTP status code.
        status: u16,
        /// The provider's message: at most 512 bytes, printable, without credentials.
        reason: String,
        /// The delay before a retry, if the provider specified one.
        retry_after: Option<Duration>,
    },
    /// The stream ended before the answer was complete.
    #[error("the answer from {provider} was cut off")]
    CutOff {
        /// The provider name.
        provider: String,
    },
    /// The response is not an event stream. The same request would fail again.
    #[error("the answer from {provider} could not be read: {reason}")]
    Malformed {
        /// The provider name.
        provider: String,
        /// What is wrong with the response, without quoting its content.
        reason: String,
    },
    /// An event violates the protocol, or the events don't form an answer. A retry may succeed.
    #[error("the answer from {provider} could not be assembled: {reason}")]
    Unreadable {
        /// The provider name.
        provider: String,
        /// What is wrong with the event, without quoting its content.
        reason: String,
    },
    /// The answer exceeds a size limit.
    #[error("the answer from {provider} exceeds {bound} bytes")]
    TooLarge {
        /// The provider name.
        provider: String,
        /// The exceeded limit, in bytes.
        bound: usize,
    },
}

impl ModelError {
    /// Returns whether a retry may succeed soon. This is the case for lost connections, truncated or unreadable
    /// streams, and the statuses 408, 429, 500, 502, 503, 504 and 529.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::CutOff { .. } | Self::Unreadable { .. } => true,
            Self::Refused { status, .. } => matches!(status, 408 | 429 | 500 | 502..=504 | 529),
            Self::Malformed { .. } | Self::TooLarge { .. } => false,
        }
    }
}
