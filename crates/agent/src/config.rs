//! How an agent is set up.

use std::path::PathBuf;
use std::time::Duration;

use openskill_proto::v1;
use openskill_trace::Tracer;

use crate::entry::Limits;

/// Where conversations are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// In this file: they survive a restart.
    File(PathBuf),
    /// In memory: they are gone when the process ends.
    Memory,
}

/// Settings of an agent.
#[derive(Debug, Clone)]
pub struct AgentConfig {
    /// Where conversations are kept.
    pub place: Place,
    /// What a turn gets if its message names no limits.
    pub limits: Limits,
    /// What a message can ask for at most.
    pub most: Limits,
    /// How many messages of the conversation the model sees, in whole rounds.
    pub window: usize,
    /// How many tokens of the conversation the model sees, by estimate. Beyond that, old results become handles, then old
    /// rounds a summary.
    pub token_budget: usize,
    /// How many tools the model sees at once. Beyond that it gets `tool_search`.
    pub max_tools: usize,
    /// How long a request for approval, or a question, stands.
    pub question_lifetime: Duration,
    /// How long a conversation is kept after it was used last.
    pub conversation_lifetime: Duration,
    /// How long a turn that goes on after a restart waits for its credential and its skills.
    pub restart_patience: Duration,
    /// How many turns run at once.
    pub max_turns: usize,
    /// Whether calls that the model writes as plain text count.
    pub text_calls: bool,
    /// Prices, by model.
    pub prices: Vec<Price>,
    /// Instructions that begin the system prompt. Empty means the agent's own.
    pub instructions: String,
    /// Makes the spans of turns. None: they are not traced.
    pub tracer: Option<Tracer>,
}

/// What a model costs, in millionths of a currency for a million tokens: that is, currency units for 10¹² tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Price {
    /// `provider:model`.
    pub model: String,
    /// For a million tokens read.
    pub input_micros: u64,
    /// For a million tokens written.
    pub output_micros: u64,
}

impl Price {
    /// What so many tokens cost, in millionths, rounded up.
    pub fn of(&self, input: u64, output: u64) -> u64 {
        let cost =
            u128::from(input) * u128::from(self.input_micros) + u128::from(output) * u128::from(self.output_micros);
        u64::try_from(cost.div_ceil(1_000_000)).unwrap_or(u64::MAX)
    }
}

impl AgentConfig {
    /// The limits of a turn: what is asked for, within the agent's own.
    pub fn limits_within(&self, wanted: v1::TurnLimits) -> Limits {
        let (own, most) = (self.limits, self.most);
        let pick = |wanted: u64, own: u64, most: u64| {
            let limit = if wanted == 0 { own } else { wanted };
            if most == 0 { limit } else { limit.min(most) }
        };
        // A bound that may be absent: the stricter one.
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
            place: Place::Memory,
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
