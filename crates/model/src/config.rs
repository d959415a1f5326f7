//! The configuration of a model provider: its location, wire format, key, default model and limits.

use std::fmt;
use std::time::Duration;

/// The maximum length of a model name, in bytes.
pub(crate) const MAX_MODEL_BYTES: usize = 256;

/// The wire format of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireFormat {
    /// OpenAI Chat Completions, which is supported by OpenAI, vLLM, Ollama, llama.cpp and most other servers.
    OpenAiChat,
    /// OpenAI Responses API.
    OpenAiResponses,
    /// Anthropic Messages API.
    Anthropic,
    /// Google Gemini API.
    Gemini,
    /// Alibaba DashScope in its OpenAI-compatible mode.
    DashScope,
}

impl WireFormat {
    /// Returns the base URL of the provider's public API.
    pub fn default_base(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::DashScope => "https://dashscope.aliyuncs.com/compatible-mode/v1",
        }
    }

    /// Returns the prefix of the provider's environment variables, such as `OPENAI` for `OPENAI_API_KEY`,
    /// `OPENAI_API_BASE` and `OPENAI_MODEL`.
    pub fn variables(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "OPENAI",
            Self::Anthropic => "ANTHROPIC",
            Self::Gemini => "GEMINI",
            Self::DashScope => "DASHSCOPE",
        }
    }

    pub(crate) fn version(self) -> &'static str {
        if self == Self::Gemini { "v1beta" } else { "v1" }
    }
}

/// Everything that is needed to reach a provider.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The wire format that the server speaks.
    pub kind: WireFormat,
    /// The provider name, such as `openai`, which precedes the colon in `openai:gpt-5`. Must be unique, not empty,
    /// and without a colon.
    pub name: String,
    /// The base URL, with or without the API version. Empty means [`WireFormat::default_base`].
    pub base: String,
    /// The API key. Local servers don't need one.
    pub key: Option<Secret>,
    /// The default model. If empty, each message must name a model.
    pub model: String,
    /// The size and time limits of an answer.
    pub limits: AnswerLimits,
}

/// Why a provider's configuration is invalid. Messages name the variable and never contain a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The name is empty, contains a colon, or is not unique.
    #[error("the model provider name '{0}' is empty, contains a colon, or is already used")]
    Name(String),
    /// The base URL can't be used.
    #[error("{variable} {reason}")]
    Base {
        /// The name of the variable, such as `OPENAI_API_BASE`.
        variable: String,
        /// Why the URL can't be used.
        reason: String,
    },
    /// The key is missing, or contains characters that are invalid in a header.
    #[error("{variable} {reason}")]
    Key {
        /// The name of the variable, such as `OPENAI_API_KEY`.
        variable: String,
        /// Why the key can't be used.
        reason: String,
    },
    /// The model name is invalid.
    #[error("{variable} is not a valid model name: it contains control characters or is longer than 256 bytes")]
    Model {
        /// The name of the variable, such as `OPENAI_MODEL`.
        variable: String,
    },
    /// The system lacks something that an HTTP client requires.
    #[error("the HTTP client for model providers can't be created: {0}")]
    Client(String),
}

/// The requested model is not configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no model {wanted:?} is configured: set {variable}")]
pub struct NoModel {
    /// The model name that was requested.
    pub wanted: String,
    /// The variable that configures the model, or a list of variables of which one must be set.
    pub variable: String,
}

impl NoModel {
    /// Returns the error if no provider is configured at all.
    pub fn at_all(wanted: &str) -> Self {
        let variable = "OPENAI_API_KEY, DASHSCOPE_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY \
                        (or OPENAI_API_BASE to a local server)";
        Self { wanted: wanted.chars().take(MAX_MODEL_BYTES).collect(), variable: variable.to_owned() }
    }
}

/// The limits of an answer.
#[derive(Debug, Clone, Copy)]
pub struct AnswerLimits {
    /// The maximum number of bytes in the stream.
    pub max_bytes: usize,
    /// The timeout for the first bytes. A local server may need minutes to read a long conversation.
    pub first: Duration,
    /// The timeout between later chunks.
    pub between: Duration,
}

impl Default for AnswerLimits {
    fn default() -> Self {
        Self { max_bytes: 32 * 1024 * 1024, first: Duration::from_secs(600), between: Duration::from_secs(300) }
    }
}

/// A credential, which no formatting reveals, not even `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Stores a credential without surrounding whitespace. Returns `None` if it is empty.
    pub fn new(text: &str) -> Option<Self> {
        let text = text.trim();
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    /// Returns the credential, for use in a header or to mask it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_does_not_show_itself() {
        let secret = Secret::new(" sk-very-secret\n").unwrap();
        assert_eq!(secret.expose(), "sk-very-secret");
        assert_eq!(format!("{secret:?}"), "Secret");
        assert_eq!(format!("{:#?}", Some(&secret)).matches("sk-").count(), 0);
        assert!(Secret::new(" \t").is_none());
    }
}
