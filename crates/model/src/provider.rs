//! A configured provider and its models, which are reached over HTTP in a wire format.

use std::sync::Arc;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use openskill_net::egress::client::operator_client;
use openskill_proto::v1::Dialect;
use reqwest::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, Url};

use crate::anthropic::Anthropic;
use crate::config::{ConfigError, MAX_MODEL_BYTES, NoModel, ProviderConfig, WireFormat};
use crate::endpoint;
use crate::gemini::Gemini;
use crate::http::{self, Server};
use crate::message::Message;
use crate::model::{Model, ModelError, ModelRequest, ModelResponse};
use crate::openai_chat::{Flavour, OpenAiChat};
use crate::openai_responses::OpenAiResponses;
use crate::text_calls::TextCallFilter;
use crate::wire::Wire;

/// A provider with its HTTP client, ready for requests.
#[derive(Debug)]
pub struct Provider {
    pub(crate) config: ProviderConfig,
    base: Url,
    headers: HeaderMap,
    client: Client,
}

impl Provider {
    /// Prepares a provider. Reads the system's certificates but sends no request.
    ///
    /// # Errors
    /// The configuration is invalid: see [`ConfigError`].
    pub fn new(config: ProviderConfig) -> Result<Self, ConfigError> {
        Self::with_client(config, operator_client().map_err(ConfigError::Client)?)
    }

    pub(crate) fn with_client(config: ProviderConfig, client: Client) -> Result<Self, ConfigError> {
        let kind = config.kind;
        let variable = |suffix: &str| format!("{}_{suffix}", kind.variables());
        let written = if config.base.trim().is_empty() { kind.default_base() } else { &config.base };
        let base = endpoint::base(written, kind.version())
            .map_err(|reason| ConfigError::Base { variable: variable("API_BASE"), reason })?;
        let own = endpoint::base(kind.default_base(), kind.version()).is_ok_and(|own| own.host() == base.host());
        let key_error = |reason: String| ConfigError::Key { variable: variable("API_KEY"), reason };
        if own && config.key.is_none() {
            return Err(key_error("is not set, and the provider requires one".to_owned()));
        }
        if !is_model(&config.model) && !config.model.is_empty() {
            return Err(ConfigError::Model { variable: variable("MODEL") });
        }
        let mut headers = HeaderMap::new();
        if kind == WireFormat::Anthropic {
            headers.insert(HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = &config.key {
            let (name, prefix) = match kind {
                WireFormat::Anthropic => (HeaderName::from_static("x-api-key"), ""),
                WireFormat::Gemini => (HeaderName::from_static("x-goog-api-key"), ""),
                _ => (AUTHORIZATION, "Bearer "),
            };
            headers.insert(name, http::credential(prefix, key).map_err(key_error)?);
        }
        Ok(Self { config, base, headers, client })
    }

    /// Returns a model of this provider. An empty name selects the default model.
    ///
    /// # Errors
    /// The name is invalid, or it is empty and no default model is configured.
    pub fn model(&self, name: &str) -> Result<Arc<dyn Model>, NoModel> {
        let model = if name.is_empty() { &self.config.model } else { name };
        if !is_model(model) {
            let variable = format!("{}_MODEL", self.config.kind.variables());
            return Err(NoModel { variable, ..NoModel::at_all(name) });
        }
        let (url, wire) = self.wire(model);
        let server = Server {
            client: self.client.clone(),
            provider: self.config.name.clone(),
            url,
            headers: self.headers.clone(),
            key: self.config.key.clone(),
            limits: self.config.limits,
        };
        Ok(Arc::new(RemoteModel { name: self.full(model), wire, server }))
    }

    fn full(&self, model: &str) -> String {
        format!("{}:{model}", self.config.name)
    }

    fn wire(&self, model: &str) -> (Url, Box<dyn Wire>) {
        let (model, name) = (model.to_owned(), self.full(model));
        let method = |segments: &[&str]| endpoint::method(&self.base, segments);
        match self.config.kind {
            WireFormat::OpenAiChat | WireFormat::DashScope => {
                let flavour = match self.config.kind {
                    WireFormat::DashScope => Flavour::DashScope,
                    _ if endpoint::is_host(&self.base, "api.openai.com") => Flavour::OpenAi,
                    _ if endpoint::is_host(&self.base, "openai.azure.com") => Flavour::OpenAi,
                    _ => Flavour::Compatible,
                };
                (method(&["chat", "completions"]), Box::new(OpenAiChat { model, name, flavour }))
            }
            WireFormat::OpenAiResponses => (method(&["responses"]), Box::new(OpenAiResponses { model, name })),
            WireFormat::Anthropic => (method(&["messages"]), Box::new(Anthropic { model, name })),
            WireFormat::Gemini => {
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

/// A model of a configured provider.
#[derive(Debug)]
struct RemoteModel {
    name: String,
    wire: Box<dyn Wire>,
    server: Server,
}

impl Model for RemoteModel {
    fn name(&self) -> &str {
        &self.name
    }

    fn dialect(&self) -> Dialect {
        self.wire.dialect()
    }

    fn server(&self) -> Option<(String, u16)> {
        let url = &self.server.url;
        Some((url.host_str()?.to_owned(), url.port_or_known_default()?))
    }

    fn ask<'a>(
        &'a self,
        request: &'a ModelRequest,
        text: &'a mut (dyn FnMut(&str) + Send),
    ) -> BoxFuture<'a, Result<ModelResponse, ModelError>> {
        async move {
            if !(request.text_calls && request.may_call) {
                return self.exchange(request, text).await;
            }
            let mut filter = TextCallFilter::default();
            let reply = self.exchange(request, &mut |piece| filter.take(piece, text)).await?;
            Ok(filter.end(reply, &request.tools, text))
        }
        .boxed()
    }
}

impl RemoteModel {
    /// Sends the request, and repeats it if the provider rejects an optional part. One is opaque data of earlier
    /// calls, which becomes invalid when earlier messages are shortened or the key changes. The other is pictures,
    /// which not every model reads.
    async fn exchange(
        &self,
        request: &ModelRequest,
        text: &mut (dyn FnMut(&str) + Send),
    ) -> Result<ModelResponse, ModelError> {
        let (mut with_opaque, mut without_pictures) = (true, None);
        loop {
            let asked = without_pictures.as_ref().unwrap_or(request);
            let answer = self.server.ask(self.wire.body(asked, with_opaque), self.wire.fold(), text).await;
            let Err(ModelError::Refused { status, reason, .. }) = &answer else { return answer };
            if with_opaque && matches!(status, 400 | 404) && has_opaque_data(asked) && refuses_opaque_data(reason) {
                with_opaque = false;
                tracing::info!(
                    model = self.name,
                    "the provider refused the data that it returned with earlier calls: asking again without it"
                );
            } else if has_pictures(asked) && refuses_pictures(*status, reason) {
                without_pictures = Some(replace_pictures(request.clone()));
                tracing::info!(model = self.name, "the provider accepts no pictures: asking again without them");
            } else {
                return answer;
            }
        }
    }
}

fn has_pictures(request: &ModelRequest) -> bool {
    request.messages.iter().any(|message| match message {
        Message::Results(results) => results.iter().any(|it| !it.pictures.is_empty()),
        _ => false,
    })
}

/// Replaces the pictures in a request with a note.
fn replace_pictures(mut request: ModelRequest) -> ModelRequest {
    for result in request.messages.iter_mut().flat_map(Message::results_mut) {
        if !std::mem::take(&mut result.pictures).is_empty() {
            result.content.push_str("\n[Its pictures can't be shown to you.]");
        }
    }
    request
}

/// Returns whether the provider rejected pictures. llama.cpp uses the status 500 for this.
fn refuses_pictures(status: u16, reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    let is_named =
        ["image", "vision", "multimodal", "multi-modal", "content type"].iter().any(|it| reason.contains(it));
    matches!(status, 400 | 404 | 413 | 415 | 422 | 500) && is_named
}

fn has_opaque_data(request: &ModelRequest) -> bool {
    request.messages.iter().flat_map(Message::calls).any(|call| !call.opaque.is_empty())
}

/// Returns whether the provider rejected opaque data.
fn refuses_opaque_data(reason: &str) -> bool {
    let reason = reason.to_ascii_lowercase();
    ["thinking", "signature", "reasoning", "encrypted", "extra_content"].iter().any(|word| reason.contains(word))
}
