//! The configuration of an agent.

use std::time::Duration;

use openskill_model::Tokens;
use openskill_proto::v1;
use openskill_store::Location;
use openskill_telemetry::trace::Tracer;

use crate::entry::Limits;

/// The configuration of an agent.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Where conversations are stored.
    pub store: Location,
    /// The default limits of a turn.
    pub limits: Limits,
    /// The maximum limits that a message can request.
    pub most: Limits,
    /// How many of the conversation's messages the model sees, rounded to whole rounds.
    pub window: usize,
    /// The maximum estimated number of tokens of the conversation that the model sees. When it is exceeded,
    /// handles replace old results, and then a summary replaces old rounds.
    pub token_budget: usize,
    /// The maximum number of tools shown to the model. If there are more, the model gets `tool_search`.
    pub max_tools: usize,
    /// How long an approval request or a question waits for the user.
    pub question_lifetime: Duration,
    /// How long a conversation is kept after its last use.
    pub conversation_lifetime: Duration,
    /// How long a turn that resumes after a restart waits for its credential and its skills to be known again.
    pub restart_patience: Duration,
    /// The maximum number of turns in memory, for all conversations.
    pub max_turns: usize,
    /// Whether to execute tool calls that the model writes as plain text.
    pub text_calls: bool,
    /// The prices of models. Models without a price cost nothing.
    pub prices: Vec<Price>,
    /// Instructions for the beginning of the system prompt. Empty means the built-in instructions.
    pub instructions: String,
    /// Creates the spans of turns. `None` disables tracing.
    pub tracer: Option<Tracer>,
}

/// The price of a model, in millionths of a currency unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// The model, as `provider:model`.
    pub model: String,
    /// The price of a million input tokens.
    pub input_micros: u64,
    /// The price of a million output tokens.
    pub output_micros: u64,
}

impl Price {
    /// Returns the cost of these token counts in millionths of the currency unit, rounded up.
    pub fn cost(&self, input: u64, output: u64) -> u64 {
        let cost =
            u128::from(input) * u128::from(self.input_micros) + u128::from(output) * u128::from(self.output_micros);
        u64::try_from(cost.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

impl AgentConfig {
    /// Returns the cost of a model's answer in millionths of the currency unit. A model without a price costs 0.
    pub(crate) fn cost(&self, model: &str, tokens: Tokens) -> u64 {
        let price = self.prices.iter().find(|it| it.model == model);
        price.map_or(0, |it| it.cost(tokens.input, tokens.output))
    }

    /// Caps the requested limits of a turn at the agent's maximum limits.
    pub fn limits_within(&self, wanted: v1::TurnLimits) -> Limits {
        let (own, most) = (self.limits, self.most);
        let pick = |wanted: u64, own: u64, most: u64| {
            let limit = if wanted == 0 { own } else { wanted };
            if most == 0 { limit } else { limit.min(most) }
        };
        // 0 means unlimited, so use the stricter of the two.
        let bound = |wanted: u64, own: u64| match (wanted, own) {
            (0, own) => own,
            (wanted, 0) => wanted,
            (wanted, own) => wanted.min(own),
        };
        let small = |wanted: u32, own: u32, most: u32| {
            u32::try_from(pick(wanted.into(), own.into(), most.into())).unwrap_or(u32::MAX)
        };
        Limits {
            max_tool_calls: small(wanted.max_tool_calls, own.max_tool_calls, most.max_tool_calls),
            max_iterations: small(wanted.max_iterations, own.max_iterations, most.max_iterations),
            max_tokens: bound(wanted.max_tokens, own.max_tokens),
            timeout_ms: pick(wanted.timeout_ms, own.timeout_ms, most.timeout_ms),
            max_cost_micros: bound(wanted.max_cost_micros, own.max_cost_micros),
            max_validation_retries: small(
                wanted.max_validation_retries,
                own.max_validation_retries,
                most.max_validation_retries,
            ),
        }
    }
}

impl Default for AgentConfig {
    fn default() -> Self {
        Self {
            store: Location::Memory,
            limits: Limits::default(),
            most: Limits {
                max_tool_calls: 50,
                max_iterations: 100,
                max_tokens: 0,
                timeout_ms: 3_600_000,
                max_cost_micros: 0,
                max_validation_retries: 10,
            },
            window: 20,
            token_budget: 32_000,
            max_tools: 30,
            question_lifetime: Duration::from_secs(24 * 3600),
            conversation_lifetime: Duration::from_secs(30 * 24 * 3600),
            restart_patience: Duration::from_secs(15),
            max_turns: 1000,
            text_calls: false,
            prices: Vec::new(),
            instructions: String::new(),
            tracer: None,
        }
    }
}
