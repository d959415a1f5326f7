//! The settings of the agent and its model providers.

use std::path::PathBuf;
use std::time::Duration;

use openskill_agent::config::{AgentConfig, Price};
use openskill_agent::entry::Limits;
use openskill_model::{AnswerLimits, ConfigError, Models, ProviderConfig, Secret, WireFormat};

use super::names;
use super::problem::{SettingProblem, SettingProblems};
use super::raw::RawSettings;
use super::reader::Reader;

/// Where the agent stores conversations.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum ConversationStore {
    /// The command's default file.
    #[default]
    Default,
    Memory,
    File(PathBuf),
}

/// The agent's settings. [`Self::models`] builds the models from them.
#[derive(Debug, Clone)]
pub(crate) struct AgentSettings {
    /// Whether a gateway runs an agent.
    pub(crate) is_on: bool,
    pub(crate) store: ConversationStore,
    /// In the order of [`PROVIDERS`]. Only providers with a key or a base URL.
    providers: Vec<ProviderConfig>,
    /// The name of the default provider. Empty means the first.
    provider: String,
    /// Everything except the location of the conversations.
    pub(crate) config: AgentConfig,
}

/// The environment variables that configure a provider.
struct ProviderVariables {
    name: &'static str,
    kind: WireFormat,
    key: &'static str,
    base: &'static str,
    model: &'static str,
}

/// The providers, the default one first.
const PROVIDERS: [ProviderVariables; 4] = [
    ProviderVariables {
        name: "openai",
        kind: WireFormat::OpenAiChat,
        key: names::OPENAI_API_KEY,
        base: names::OPENAI_API_BASE,
        model: names::OPENAI_MODEL,
    },
    ProviderVariables {
        name: "dashscope",
        kind: WireFormat::DashScope,
        key: names::DASHSCOPE_API_KEY,
        base: names::DASHSCOPE_API_BASE,
        model: names::DASHSCOPE_MODEL,
    },
    ProviderVariables {
        name: "anthropic",
        kind: WireFormat::Anthropic,
        key: names::ANTHROPIC_API_KEY,
        base: names::ANTHROPIC_API_BASE,
        model: names::ANTHROPIC_MODEL,
    },
    ProviderVariables {
        name: "gemini",
        kind: WireFormat::Gemini,
        key: names::GEMINI_API_KEY,
        base: names::GEMINI_API_BASE,
        model: names::GEMINI_MODEL,
    },
];

impl AgentSettings {
    /// Creates the models of the configured providers. Reads the system's certificates.
    ///
    /// # Errors
    /// The configuration of a provider is unusable.
    pub(crate) fn models(&self, raw: &RawSettings) -> Result<Models, SettingProblems> {
        let problem = |name: &str, reason: String| {
            SettingProblems(vec![SettingProblem {
                name: name.to_owned(),
                origin: raw.origin(name).to_string(),
                reason,
            }])
        };
        let mut providers = self.providers.clone();
        if !self.provider.is_empty() {
            let place = providers.iter().position(|it| it.name == self.provider);
            let place = place.ok_or_else(|| problem(names::AGENT_PROVIDER, not_configured(&self.provider)))?;
            providers[..=place].rotate_right(1);
        }
        Models::new(providers).map_err(|error| {
            // The problem already shows the name of the variable, so the reason omits it.
            let (variable, reason) = match &error {
                ConfigError::Base { variable, reason } | ConfigError::Key { variable, reason } => {
                    (variable.clone(), reason.clone())
                }
                ConfigError::Model { variable } => (variable.clone(), error.to_string()),
                ConfigError::Name(_) | ConfigError::Client(_) => (names::AGENT.to_owned(), error.to_string()),
            };
            problem(&variable, reason)
        })
    }
}

/// Reads the settings and the instruction file.
pub(super) fn read(reader: &mut Reader<'_>) -> AgentSettings {
    AgentSettings {
        is_on: reader.one_of(names::AGENT, &[("on", true), ("off", false)]),
        store: store(reader.raw.value(names::AGENT_STORE)),
        providers: providers(reader),
        provider: reader.raw.value(names::AGENT_PROVIDER).to_owned(),
        config: config(reader),
    }
}

fn store(value: &str) -> ConversationStore {
    match value {
        "" => ConversationStore::Default,
        "memory" => ConversationStore::Memory,
        path => ConversationStore::File(PathBuf::from(path)),
    }
}

/// Returns the providers that have a key or a base URL.
fn providers(reader: &mut Reader<'_>) -> Vec<ProviderConfig> {
    let style = [("chat", WireFormat::OpenAiChat), ("responses", WireFormat::OpenAiResponses)];
    let openai = reader.one_of(names::OPENAI_API_STYLE, &style);
    let mut found: Vec<_> = PROVIDERS.iter().filter_map(|it| provider(reader.raw, it)).collect();
    for it in &mut found {
        if it.kind == WireFormat::OpenAiChat {
            it.kind = openai;
        }
    }
    let first = reader.raw.value(names::AGENT_PROVIDER);
    if !first.is_empty() && PROVIDERS.iter().all(|it| it.name != first) {
        reader.problem(names::AGENT_PROVIDER, not_configured(first));
    }
    found
}

fn not_configured(provider: &str) -> String {
    match PROVIDERS.iter().find(|it| it.name == provider) {
        Some(it) => format!("'{provider}' is not configured: set {} or {}", it.key, it.base),
        None => format!("'{provider}' is not one of {}", PROVIDERS.map(|it| it.name).join(", ")),
    }
}

fn provider(raw: &RawSettings, of: &ProviderVariables) -> Option<ProviderConfig> {
    let (key, base) = (Secret::new(raw.value(of.key)), raw.value(of.base).trim());
    (key.is_some() || !base.is_empty()).then(|| ProviderConfig {
        kind: of.kind,
        name: of.name.to_owned(),
        base: base.to_owned(),
        key,
        model: raw.value(of.model).trim().to_owned(),
        limits: AnswerLimits::default(),
    })
}

fn config(reader: &mut Reader<'_>) -> AgentConfig {
    let own = AgentConfig::default();
    let most = own.most;
    let hours = reader.number(names::AGENT_LIFETIME_HOURS, 1, 1_000_000) as u64;
    AgentConfig {
        limits: Limits {
            max_tool_calls: small(reader, names::AGENT_MAX_TOOL_CALLS, 1, most.max_tool_calls),
            max_iterations: small(reader, names::AGENT_MAX_ITERATIONS, 1, most.max_iterations),
            max_tokens: reader.number(names::AGENT_MAX_TOKENS, 0, usize::MAX) as u64,
            timeout_ms: reader.number(names::AGENT_TIMEOUT_MS, 1000, 3_600_000) as u64,
            max_cost_micros: reader.number(names::AGENT_MAX_COST_MICROS, 0, usize::MAX) as u64,
            max_validation_retries: small(reader, names::AGENT_MAX_VALIDATION_RETRIES, 0, most.max_validation_retries),
        },
        window: reader.number(names::AGENT_WINDOW, 1, 10_000),
        token_budget: reader.number(names::AGENT_TOKEN_BUDGET, 1000, 100_000_000),
        max_tools: reader.number(names::AGENT_MAX_TOOLS, 1, 1000),
        question_lifetime: reader.seconds(names::AGENT_QUESTION_LIFETIME, 1, 30 * 86_400),
        conversation_lifetime: Duration::from_secs(hours * 3600),
        max_turns: reader.number(names::AGENT_MAX_TURNS, 1, 100_000),
        text_calls: reader.flag(names::AGENT_TEXT_CALLS),
        prices: prices(reader),
        instructions: instructions(reader),
        ..own
    }
}

fn small(reader: &mut Reader<'_>, name: &str, least: usize, most: u32) -> u32 {
    u32::try_from(reader.number(name, least, most as usize)).unwrap_or(most)
}

fn instructions(reader: &mut Reader<'_>) -> String {
    let Some(file) = reader.file(names::AGENT_INSTRUCTIONS) else { return String::new() };
    String::from_utf8(file).unwrap_or_else(|_| {
        reader.problem(names::AGENT_INSTRUCTIONS, "the file is not UTF-8".to_owned());
        String::new()
    })
}

fn prices(reader: &mut Reader<'_>) -> Vec<Price> {
    let mut prices = Vec::new();
    for text in reader.raw.value(names::AGENT_PRICES).split(',').map(str::trim).filter(|text| !text.is_empty()) {
        match price(text) {
            Some(price) => prices.push(price),
            None => {
                let reason = format!("'{text}' is not PROVIDER:MODEL=INPUT/OUTPUT, such as openai:gpt-5=1.25/10");
                reader.problem(names::AGENT_PRICES, reason);
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
    let is_known = PROVIDERS.iter().any(|it| it.name == provider) && !name.is_empty();
    is_known.then_some(())?;
    Some(Price { model: model.trim().to_owned(), input_micros: micros(input)?, output_micros: micros(output)? })
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
    use std::path::Path;

    use super::*;
    use crate::settings::Settings;

    fn resolve(values: &[(&'static str, &str)]) -> Result<(AgentSettings, RawSettings), SettingProblems> {
        let flags = values.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        let raw = RawSettings::read(&flags, |_| None, Path::new("/nonexistent"));
        Settings::resolve(&raw).map(|it| (it.agent, raw))
    }

    #[test]
    fn the_defaults_are_those_of_the_agent() {
        let (agent, _) = resolve(&[]).unwrap();
        let own = AgentConfig::default();
        assert!(agent.is_on && agent.providers.is_empty() && agent.store == ConversationStore::Default);
        assert_eq!(format!("{:?}", agent.config), format!("{own:?}"));
    }

    #[test]
    fn a_provider_needs_a_key_or_a_base_url_and_the_first_is_the_default() {
        let (agent, _) = resolve(&[
            (names::OPENAI_API_BASE, "http://localhost:11434"),
            (names::OPENAI_API_STYLE, "responses"),
            (names::GEMINI_API_KEY, "g"),
            (names::ANTHROPIC_MODEL, "without a key"),
        ])
        .unwrap();
        let names: Vec<_> = agent.providers.iter().map(|it| (it.name.as_str(), it.kind)).collect();
        assert_eq!(names, [("openai", WireFormat::OpenAiResponses), ("gemini", WireFormat::Gemini)]);
        let chosen = [(names::OPENAI_API_KEY, "o"), (names::GEMINI_API_KEY, "g"), (names::AGENT_PROVIDER, "gemini")];
        let (agent, raw) = resolve(&chosen).unwrap();
        let models = format!("{:?}", agent.models(&raw).unwrap());
        assert!(models.find("gemini") < models.find("openai"), "{models}");
        let (agent, raw) = resolve(&[(names::AGENT_PROVIDER, "gemini")]).unwrap();
        let missing = agent.models(&raw).unwrap_err().to_string();
        assert!(missing.contains("GEMINI_API_KEY"), "{missing}");
        assert!(resolve(&[(names::AGENT_PROVIDER, "other")]).is_err());
    }

    #[test]
    fn a_base_url_that_cannot_be_used_is_a_problem_of_its_variable() {
        let (agent, raw) = resolve(&[(names::OPENAI_API_BASE, "localhost:11434")]).unwrap();
        let problem = agent.models(&raw).unwrap_err().to_string();
        assert!(problem.contains("OPENAI_API_BASE (flag)"), "{problem}");
    }

    #[test]
    fn prices_are_exact() {
        let (agent, _) = resolve(&[(names::AGENT_PRICES, "openai:gpt-5=1.25/10, openai:qwen3:8b=0/0.000001")]).unwrap();
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
