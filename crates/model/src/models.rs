//! The models of the configured providers, and the selection of a model by name.

use std::sync::Arc;

use openskill_net::egress::client::operator_client;

use crate::config::{ConfigError, NoModel, ProviderConfig};
use crate::model::Model;
use crate::provider::Provider;

/// The configured models. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Models(Vec<Source>);

#[derive(Debug, Clone)]
enum Source {
    Fixed(Arc<dyn Model>),
    Provider(Arc<Provider>),
}

impl Models {
    /// Returns an empty list of models, for which the router answers instead.
    pub fn none() -> Self {
        Self::default()
    }

    /// Creates the list from models. The first model is the default.
    pub fn from_models(models: Vec<Arc<dyn Model>>) -> Self {
        Self(models.into_iter().map(Source::Fixed).collect())
    }

    /// Creates the models of these providers. The first provider has the default model. Reads the system's
    /// certificates.
    ///
    /// # Errors
    /// A configuration is invalid: see [`ConfigError`]. No request is sent to a provider.
    pub fn new(configs: Vec<ProviderConfig>) -> Result<Self, ConfigError> {
        if configs.is_empty() {
            return Ok(Self::none());
        }
        let client = operator_client().map_err(ConfigError::Client)?;
        let mut providers: Vec<Arc<Provider>> = Vec::with_capacity(configs.len());
        for config in configs {
            let name = &config.name;
            if name.is_empty() || name.contains(':') || providers.iter().any(|it| it.config.name == *name) {
                return Err(ConfigError::Name(config.name));
            }
            providers.push(Arc::new(Provider::with_client(config, client.clone())?));
        }
        Ok(Self(providers.into_iter().map(Source::Provider).collect()))
    }

    /// Selects a model by `provider:model`, `provider`, or the name of one of the default provider's models. An
    /// empty name selects the default model. Returns `None` if the name is empty and no model is configured.
    ///
    /// # Errors
    /// [`NoModel`]: the requested model is not configured.
    pub fn pick(&self, wanted: &str) -> Result<Option<Arc<dyn Model>>, NoModel> {
        let wanted = wanted.trim();
        if self.0.is_empty() && wanted.is_empty() {
            return Ok(None);
        }
        let (first, rest) = wanted.split_once(':').unwrap_or((wanted, ""));
        for source in &self.0 {
            match source {
                Source::Fixed(model) if fits(model.name(), wanted) => return Ok(Some(Arc::clone(model))),
                Source::Provider(provider) if wanted.is_empty() || provider.config.name == first => {
                    return provider
                        .model(rest)
                        .map_err(|error| NoModel { variable: error.variable, ..NoModel::at_all(wanted) })
                        .map(Some);
                }
                _ => {}
            }
        }
        // Model names may contain colons too.
        match (missing(wanted), self.0.first()) {
            (Some(missing), _) => Err(missing),
            (None, Some(Source::Provider(provider))) => provider.model(wanted).map(Some),
            (None, Some(Source::Fixed(_)) | None) => Err(NoModel::at_all(wanted)),
        }
    }
}

fn fits(name: &str, wanted: &str) -> bool {
    let (provider, model) = name.split_once(':').unwrap_or((name, name));
    wanted.is_empty() || [name, provider, model].contains(&wanted)
}

/// Returns the error for a known provider that is not configured.
fn missing(wanted: &str) -> Option<NoModel> {
    let provider = wanted.split(':').next().filter(|it| ["openai", "dashscope", "anthropic", "gemini"].contains(it))?;
    Some(NoModel { variable: format!("{}_API_KEY", provider.to_ascii_uppercase()), ..NoModel::at_all(wanted) })
}

#[cfg(test)]
mod tests;
