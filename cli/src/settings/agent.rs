//! The settings of the agent and its model providers.

use std::time::Duration;

use openskill_agent::config::{AgentConfig, Price};
use openskill_agent::entry::Limits;
use openskill_model::{AnswerLimits, ConfigError, Models, ProviderConfig, Secret, WireFormat};

use super::problem::SettingProblems;
use super::raw::RawSettings;
use super::reader::{Reader, StorePlace};

/// The agent's settings. [`Self::models`] builds the models from them.
#[derive(Debug, Clone)]
pub(crate) struct AgentSettings {
    /// Whether a gateway runs an agent.
    pub(crate) is_on: bool,
    /// The file with the conversations.
    pub(crate) store: StorePlace,
    /// In the order of [`PROVIDERS`]. Only providers with a key or a base URL.
    providers: Vec<ProviderConfig>,
    /// The name of the default provider. Empty means the first.
    provider: String,
    /// Everything except the location of the conversations.
    pub(crate) config: AgentConfig,
}

/// The providers, the default one first.
const PROVIDERS: [(&str, WireFormat); 4] = [
    ("openai", WireFormat::OpenAiChat),
    ("dashscope", WireFormat::DashScope),
    ("anthropic", WireFormat::Anthropic),
    ("gemini", WireFormat::Gemini),
];

impl AgentSettings {
    /// Creates the models of the configured providers. Reads the system's certificates.
    ///
    /// # Errors
    /// The configuration of a provider is unusable.
    pub(crate) fn models(&self, raw: &RawSettings) -> Result<Models, SettingProblems> {
        let mut providers = self.providers.clone();
        if !self.provider.is_empty() {
            let place = providers.iter().position(|it| it.name == self.provider);
            let missing = || raw.problem("OPENSKILL_AGENT_PROVIDER", not_configured(&self.provider));
            providers[..=place.ok_or_else(missing)?].rotate_right(1);
        }
        Models::new(providers).map_err(|error| {
            // The problem already shows the name of the variable, so the reason omits it.
            let (variable, reason) = match &error {
                ConfigError::Base { variable, reason } | ConfigError::Key { variable, reason } => {
                    (variable.as_str(), reason.clone())
                }
                ConfigError::Model { variable } => (variable.as_str(), error.to_string()),
                ConfigError::Name(_) | ConfigError::Client(_) => ("OPENSKILL_AGENT", error.to_string()),
            };
            raw.problem(variable, reason).into()
        })
    }
}

/// Reads the settings and the instruction file.
pub(super) fn read(reader: &mut Reader<'_>) -> AgentSettings {
    AgentSettings {
        is_on: reader.one_of("OPENSKILL_AGENT", &[("on", true), ("off", false)]),
        store: reader.store("OPENSKILL_AGENT_STORE"),
        providers: providers(reader),
        provider: reader.raw.value("OPENSKILL_AGENT_PROVIDER").to_owned(),
        config: config(reader),
    }
}

/// Returns the providers that have a key or a base URL.
fn providers(reader: &mut Reader<'_>) -> Vec<ProviderConfig> {
    let style = [("chat", WireFormat::OpenAiChat), ("responses", WireFormat::OpenAiResponses)];
    let openai = reader.one_of("OPENAI_API_STYLE", &style);
    let first = reader.raw.value("OPENSKILL_AGENT_PROVIDER");
    if !first.is_empty() && !is_provider(first) {
        reader.problem("OPENSKILL_AGENT_PROVIDER", not_configured(first));
    }
    let kinds = PROVIDERS.map(|(name, kind)| (name, if name == "openai" { openai } else { kind }));
    kinds.into_iter().filter_map(|(name, kind)| provider(reader.raw, name, kind)).collect()
}

fn is_provider(name: &str) -> bool {
    PROVIDERS.iter().any(|(it, _)| *it == name)
}

fn not_configured(provider: &str) -> String {
    match PROVIDERS.iter().find(|(name, _)| *name == provider) {
        Some((_, kind)) => {
            let prefix = kind.variables();
            format!("'{provider}' is not configured: set {prefix}_API_KEY or {prefix}_API_BASE")
        }
        None => format!("'{provider}' is not one of {}", PROVIDERS.map(|(name, _)| name).join(", ")),
    }
}

fn provider(raw: &RawSettings, name: &str, kind: WireFormat) -> Option<ProviderConfig> {
    let value = |what: &str| raw.value(&format!("{}_{what}", kind.variables()));
    let (key, base) = (Secret::new(value("API_KEY")), value("API_BASE").trim());
    (key.is_some() || !base.is_empty()).then(|| ProviderConfig {
        kind,
        name: name.to_owned(),
        base: base.to_owned(),
        key,
        model: value("MODEL").trim().to_owned(),
        limits: AnswerLimits::default(),
    })
}

fn config(reader: &mut Reader<'_>) -> AgentConfig {
    let own = AgentConfig::default();
    let most = own.most;
    let hours = reader.number("OPENSKILL_AGENT_LIFETIME_HOURS", 1, 1_000_000) as u64;
    let (calls, iterations, retries) = (most.max_tool_calls, most.max_iterations, most.max_validation_retries);
    AgentConfig {
        limits: Limits {
            max_tool_calls: small(reader, "OPENSKILL_AGENT_MAX_TOOL_CALLS", 1, calls),
            max_iterations: small(reader, "OPENSKILL_AGENT_MAX_ITERATIONS", 1, iterations),
            max_tokens: reader.number("OPENSKILL_AGENT_MAX_TOKENS", 0, usize::MAX) as u64,
            timeout_ms: reader.number("OPENSKILL_AGENT_TIMEOUT_MS", 1000, 3_600_000) as u64,
            max_cost_micros: reader.number("OPENSKILL_AGENT_MAX_COST_MICROS", 0, usize::MAX) as u64,
            max_validation_retries: small(reader, "OPENSKILL_AGENT_MAX_VALIDATION_RETRIES", 0, retries),
        },
        window: reader.number("OPENSKILL_AGENT_WINDOW", 1, 10_000),
        token_budget: reader.number("OPENSKILL_AGENT_TOKEN_BUDGET", 1000, 100_000_000),
        max_tools: reader.number("OPENSKILL_AGENT_MAX_TOOLS", 1, 1000),
        question_lifetime: reader.seconds("OPENSKILL_AGENT_QUESTION_LIFETIME_S", 1, 30 * 86_400),
        conversation_lifetime: Duration::from_secs(hours * 3600),
        max_turns: reader.number("OPENSKILL_AGENT_MAX_TURNS", 1, 100_000),
        text_calls: reader.flag("OPENSKILL_AGENT_TEXT_CALLS"),
        prices: prices(reader),
        instructions: instructions(reader),
        ..own
    }
}

fn small(reader: &mut Reader<'_>, name: &str, least: usize, most: u32) -> u32 {
    u32::try_from(reader.number(name, least, most as usize)).unwrap_or(most)
}

fn instructions(reader: &mut Reader<'_>) -> String {
    let Some(file) = reader.file("OPENSKILL_AGENT_INSTRUCTIONS") else { return String::new() };
    String::from_utf8(file).unwrap_or_else(|_| {
        reader.problem("OPENSKILL_AGENT_INSTRUCTIONS", "the file is not UTF-8");
        String::new()
    })
}

fn prices(reader: &mut Reader<'_>) -> Vec<Price> {
    let mut prices = Vec::new();
    for text in reader.raw.list("OPENSKILL_AGENT_PRICES") {
        match price(text) {
            Some(price) => prices.push(price),
            None => {
                let reason = format!("'{text}' is not PROVIDER:MODEL=INPUT/OUTPUT, such as openai:gpt-5=1.25/10");
                reader.problem("OPENSKILL_AGENT_PRICES", reason);
            }
        }
    }
    prices
}

/// Parses a price, such as `openai:gpt-5=1.25/10`: the cost of a million input tokens and of a million output
/// tokens.
fn price(text: &str) -> Option<Price> {
    let (model, costs) = text.rsplit_once('=')?;
    let (input, output) = costs.split_once('/')?;
    let (provider, name) = model.trim().split_once(':')?;
    let price = Price { model: model.trim().to_owned(), input_micros: micros(input)?, output_micros: micros(output)? };
    (is_provider(provider) && !name.is_empty()).then_some(price)
}

/// Parses a decimal number. Returns it in millionths.
fn micros(text: &str) -> Option<u64> {
    let (whole, part) = text.trim().split_once('.').unwrap_or((text.trim(), "0"));
    let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || part.len() > 6 {
        return None;
    }
    let part: u64 = format!("{part:0<6}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;

    fn resolve(values: &[(&'static str, &str)]) -> Result<(AgentSettings, RawSettings), SettingProblems> {
        let raw = RawSettings::for_test(values);
        Settings::resolve(&raw).map(|it| (it.agent, raw))
    }

    #[test]
    fn the_defaults_are_those_of_the_agent() {
        let (agent, _) = resolve(&[]).unwrap();
        let own = AgentConfig::default();
        assert!(agent.is_on && agent.providers.is_empty() && agent.store.is_default);
        assert_eq!(format!("{:?}", agent.config), format!("{own:?}"));
    }

    #[test]
    fn a_provider_needs_a_key_or_a_base_url_and_the_first_is_the_default() {
        let (agent, _) = resolve(&[
            ("OPENAI_API_BASE", "http://localhost:11434"),
            ("OPENAI_API_STYLE", "responses"),
            ("GEMINI_API_KEY", "g"),
            ("ANTHROPIC_MODEL", "without a key"),
        ])
        .unwrap();
        let names: Vec<_> = agent.providers.iter().map(|it| (it.name.as_str(), it.kind)).collect();
        assert_eq!(names, [("openai", WireFormat::OpenAiResponses), ("gemini", WireFormat::Gemini)]);
        let chosen = [("OPENAI_API_KEY", "o"), ("GEMINI_API_KEY", "g"), ("OPENSKILL_AGENT_PROVIDER", "gemini")];
        let (agent, raw) = resolve(&chosen).unwrap();
        let models = format!("{:?}", agent.models(&raw).unwrap());
        assert!(models.find("gemini") < models.find("openai"), "{models}");
        let (agent, raw) = resolve(&[("OPENSKILL_AGENT_PROVIDER", "gemini")]).unwrap();
        let missing = agent.models(&raw).unwrap_err().to_string();
        assert!(missing.contains("GEMINI_API_KEY"), "{missing}");
        assert!(resolve(&[("OPENSKILL_AGENT_PROVIDER", "other")]).is_err());
    }

    #[test]
    fn a_base_url_that_cannot_be_used_is_a_problem_of_its_variable() {
        let (agent, raw) = resolve(&[("OPENAI_API_BASE", "localhost:11434")]).unwrap();
        let problem = agent.models(&raw).unwrap_err().to_string();
        assert!(problem.contains("OPENAI_API_BASE (flag)"), "{problem}");
    }

    #[test]
    fn prices_are_exact() {
        let prices = "openai:gpt-5=1.25/10, openai:qwen3:8b=0/0.000001";
        let (agent, _) = resolve(&[("OPENSKILL_AGENT_PRICES", prices)]).unwrap();
        let found: Vec<_> =
            agent.config.prices.iter().map(|it| (it.model.as_str(), it.input_micros, it.output_micros)).collect();
        assert_eq!(found, [("openai:gpt-5", 1_250_000, 10_000_000), ("openai:qwen3:8b", 0, 1)]);
        for wrong in [
            "gpt-5=1/2",
            "openai:gpt-5",
            "openai:=1/2",
            "other:m=1/2",
            "openai:m=1",
            "openai:m=-1/2",
            "openai:m=1/0.0000001",
        ] {
            assert!(price(wrong).is_none(), "{wrong}");
        }
    }
}
