//! The configured providers, and how a model of them is picked.

use std::fmt;
use std::sync::Arc;

use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};

use super::anthropic::Anthropic;
use super::endpoint;
use super::gemini::Gemini;
use super::http::{self, Patience, Server};
use super::model::Model;
use super::openai_chat::{Flavour, OpenAiChat};
use super::openai_responses::OpenAiResponses;
use super::remote::Remote;
use super::secret::Secret;
use super::wire::Wire;

/// The longest name of a model, in bytes.
const MAX_MODEL_BYTES: usize = 256;

/// The wire format of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// OpenAI chat completions: OpenAI, vLLM, Ollama, llama.cpp and most others.
    OpenAiChat,
    /// OpenAI Responses.
    OpenAiResponses,
    /// Anthropic Messages.
    Anthropic,
    /// Google Gemini.
    Gemini,
    /// Alibaba DashScope, in its compatible mode.
    DashScope,
}

impl Kind {
    /// The base URL of the provider itself.
    pub fn default_base(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta",
            Self::DashScope => "https://dashscope.aliyuncs.com/compatible-mode/v1",
        }
    }

    /// How the provider's variables begin: `OPENAI` has `OPENAI_API_KEY`, `OPENAI_API_BASE` and `OPENAI_MODEL`.
    pub fn variables(self) -> &'static str {
        match self {
            Self::OpenAiChat | Self::OpenAiResponses => "OPENAI",
            Self::Anthropic => "ANTHROPIC",
            Self::Gemini => "GEMINI",
            Self::DashScope => "DASHSCOPE",
        }
    }

    fn version(self) -> &'static str {
        if self == Self::Gemini { "v1beta" } else { "v1" }
    }
}

/// A provider, as it is configured.
#[derive(Debug, Clone)]
pub struct ProviderConfig {
    /// The wire format.
    pub kind: Kind,
    /// Its name, such as `openai`: up to the colon in `openai:gpt-5`. Not empty, unique, without a colon.
    pub name: String,
    /// The base URL, with or without the version. Empty means [`Kind::default_base`].
    pub base: String,
    /// The key. Local servers need none.
    pub key: Option<Secret>,
    /// The model if none is named. May be empty: then each message must name one.
    pub model: String,
}

/// Why a provider cannot be used as it is configured. Names the variable; holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A name is empty, has a colon, or is another provider's.
    #[error("the name '{0}' of a model provider is empty, has a colon, or is another's")]
    Name(String),
    /// The base URL cannot be used.
    #[error("{variable} {reason}")]
    Base {
        /// The variable, such as `OPENAI_API_BASE`.
        variable: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The key is missing, or cannot be sent.
    #[error("{variable} {reason}")]
    Key {
        /// The variable, such as `OPENAI_API_KEY`.
        variable: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The model's name cannot be one.
    #[error("{variable} is no name of a model: it has control characters or more than 256 bytes")]
    Model {
        /// The variable, such as `OPENAI_MODEL`.
        variable: String,
    },
    /// The system lacks what an HTTP client needs.
    #[error("no HTTP client for model providers: {0}")]
    Client(String),
}

/// The wanted model is not configured.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no model {wanted:?} is configured: set {variable}")]
pub struct NoModel {
    /// The model that was asked for.
    pub wanted: String,
    /// The environment variable that configures it, or all of which one has to be set.
    pub variable: String,
}

impl NoModel {
    /// No provider is configured at all.
    pub fn at_all(wanted: &str) -> Self {
        let variable = "OPENAI_API_KEY, DASHSCOPE_API_KEY, ANTHROPIC_API_KEY or GEMINI_API_KEY \
                        (or OPENAI_API_BASE to a local server)";
        Self { wanted: wanted.chars().take(MAX_MODEL_BYTES).collect(), variable: variable.to_owned() }
    }
}

/// The configured models. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Models(Vec<Source>);

#[derive(Debug, Clone)]
enum Source {
    Fixed(Arc<dyn Model>),
    Provider(Arc<Provider>),
}

impl Models {
    /// No models: the router answers.
    pub fn none() -> Self {
        Self::default()
    }

    /// These models, the first of which is the default.
    pub fn of(models: Vec<Arc<dyn Model>>) -> Self {
        Self(models.into_iter().map(Source::Fixed).collect())
    }

    /// The models of these providers, the first of which is the default. Reads the system's certificates.
    ///
    /// # Errors
    /// [`ConfigError`]. No provider is asked for anything.
    pub fn new(providers: Vec<ProviderConfig>) -> Result<Self, ConfigError> {
        Self::with_patience(providers, Patience::default())
    }

    pub(super) fn with_patience(configs: Vec<ProviderConfig>, patience: Patience) -> Result<Self, ConfigError> {
        if configs.is_empty() {
            return Ok(Self::none());
        }
        let client = http::client().map_err(ConfigError::Client)?;
        let mut providers: Vec<Arc<Provider>> = Vec::with_capacity(configs.len());
        for config in configs {
            let name = &config.name;
            if name.is_empty() || name.contains(':') || providers.iter().any(|it| it.config.name == *name) {
                return Err(ConfigError::Name(config.name));
            }
            providers.push(Arc::new(Provider::new(config, client.clone(), patience)?));
        }
        Ok(Self(providers.into_iter().map(Source::Provider).collect()))
    }

    /// The model for `provider:model`, `provider`, or a model of the default provider; the default one if `wanted` is
    /// empty. None if no model is configured and none is wanted.
    ///
    /// # Errors
    /// [`NoModel`]: the wanted model is not configured.
    pub fn pick(&self, wanted: &str) -> Result<Option<Arc<dyn Model>>, NoModel> {
        let wanted = wanted.trim();
        if self.0.is_empty() {
            return if wanted.is_empty() {
                Ok(None)
            } else {
                Err(missing(wanted).unwrap_or_else(|| NoModel::at_all(wanted)))
            };
        }
        let (first, rest) = wanted.split_once(':').unwrap_or((wanted, ""));
        for source in &self.0 {
            match source {
                Source::Fixed(model) if fits(model.name(), wanted) => return Ok(Some(Arc::clone(model))),
                Source::Provider(provider) if wanted.is_empty() || provider.config.name == first => {
                    return provider.model(rest, wanted).map(Some);
                }
                _ => {}
            }
        }
        // Names of models may have colons too.
        match (missing(wanted), &self.0[0]) {
            (Some(missing), _) => Err(missing),
            (None, Source::Provider(provider)) => provider.model(wanted, wanted).map(Some),
            (None, Source::Fixed(_)) => Err(NoModel::at_all(wanted)),
        }
    }
}

fn fits(name: &str, wanted: &str) -> bool {
    let (provider, model) = name.split_once(':').unwrap_or((name, name));
    wanted.is_empty() || [name, provider, model].contains(&wanted)
}

/// What to set for a provider that is known but not configured.
fn missing(wanted: &str) -> Option<NoModel> {
    let variables = match wanted.split(':').next().unwrap_or_default() {
        "openai" => "OPENAI",
        "dashscope" => "DASHSCOPE",
        "anthropic" => "ANTHROPIC",
        "gemini" => "GEMINI",
        _ => return None,
    };
    Some(NoModel { variable: format!("{variables}_API_KEY"), ..NoModel::at_all(wanted) })
}

/// A provider that is ready to be asked.
struct Provider {
    config: ProviderConfig,
    base: Url,
    headers: HeaderMap,
    client: Client,
    patience: Patience,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Provider {
    fn new(config: ProviderConfig, client: Client, patience: Patience) -> Result<Self, ConfigError> {
        let kind = config.kind;
        let variable = |of: &str| format!("{}_{of}", kind.variables());
        let written = if config.base.trim().is_empty() { kind.default_base() } else { &config.base };
        let base = endpoint::base(written, kind.version())
            .map_err(|reason| ConfigError::Base { variable: variable("API_BASE"), reason })?;
        let own = endpoint::base(kind.default_base(), kind.version()).is_ok_and(|own| own.host() == base.host());
        let key_error = |reason: String| ConfigError::Key { variable: variable("API_KEY"), reason };
        if own && config.key.is_none() {
            return Err(key_error("is not set, and the provider wants one".to_owned()));
        }
        if !is_model(&config.model) && !config.model.is_empty() {
            return Err(ConfigError::Model { variable: variable("MODEL") });
        }
        let mut headers = HeaderMap::new();
        if kind == Kind::Anthropic {
            headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = &config.key {
            let (name, prefix) = match kind {
                Kind::Anthropic => (HeaderName::from_static("x-api-key"), ""),
                Kind::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
                _ => (AUTHORIZATION, "Bearer "),
            };
            headers.insert(name, http::credential(prefix, key).map_err(key_error)?);
        }
        Ok(Self { config, base, headers, client, patience })
    }

    /// A model: the configured one if the name is empty.
    fn model(&self, name: &str, wanted: &str) -> Result<Arc<dyn Model>, NoModel> {
        let model = if name.is_empty() { &self.config.model } else { name };
        if !is_model(model) {
            let variable = format!("{}_MODEL", self.config.kind.variables());
            return Err(NoModel { variable, ..NoModel::at_all(wanted) });
        }
        let (url, wire) = self.wire(model);
        let server = Server {
            client: self.client.clone(),
            provider: self.config.name.clone(),
            url,
            headers: self.headers.clone(),
            key: self.config.key.clone(),
            patience: self.patience,
        };
        Ok(Arc::new(Remote { name: self.full(model), wire, server }))
    }

    fn full(&self, model: &str) -> String {
        format!("{}:{model}", self.config.name)
    }

    fn wire(&self, model: &str) -> (Url, Box<dyn Wire>) {
        let (model, name) = (model.to_owned(), self.full(model));
        let method = |segments: &[&str]| endpoint::method(&self.base, segments);
        match self.config.kind {
            Kind::OpenAiChat | Kind::DashScope => {
                let flavour = match self.config.kind {
                    Kind::DashScope => Flavour::DashScope,
                    _ if endpoint::is_host(&self.base, "api.openai.com") => Flavour::OpenAi,
                    _ if endpoint::is_host(&self.base, "openai.azure.com") => Flavour::OpenAi,
                    _ => Flavour::Compatible,
                };
                (method(&["chat", "completions"]), Box::new(OpenAiChat { model, name, flavour }))
            }
            Kind::OpenAiResponses => (method(&["responses"]), Box::new(OpenAiResponses { model, name })),
            Kind::Anthropic => (method(&["messages"]), Box::new(Anthropic { model, name })),
            Kind::Gemini => {
                let model = model.strip_prefix("models/").unwrap_or(&model).to_owned();
                let mut url = method(&["models", &format!("{model}:streamGenerateContent")]);
                url.set_query(Some("alt=sse"));
                (url, Box::new(Gemini { model, name }))
            }
        }
    }
}

fn is_model(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= MAX_MODEL_BYTES
        && !name.chars().any(char::is_control)
        && !matches!(name, "." | "..")
}

#[cfg(test)]
mod tests;
