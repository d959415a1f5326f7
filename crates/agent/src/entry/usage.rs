//! The usage of turns: tokens, requests, calls and cost.

use openskill_proto::v1;
use serde::{Deserialize, Serialize};

/// The usage of a turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnUsage {
    /// The number of tokens that models read.
    pub input_tokens: u64,
    /// The number of tokens that models wrote.
    pub output_tokens: u64,
    /// The number of model requests.
    pub iterations: u32,
    /// The number of tool calls.
    pub tool_calls: u32,
    /// The cost in millionths of a currency unit.
    pub cost_micros: u64,
}

impl TurnUsage {
    /// Assumes that a sub-agent used its entire grant. An unlimited grant counts as 0.
    pub fn from_granted(granted: v1::Delegation) -> Self {
        Self {
            input_tokens: granted.max_tokens.unwrap_or_default(),
            output_tokens: 0,
            iterations: granted.max_iterations.unwrap_or_default(),
            tool_calls: granted.max_tool_calls.unwrap_or_default(),
            cost_micros: granted.max_cost_micros.unwrap_or_default(),
        }
    }

    /// Adds another usage to this one.
    pub fn add(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.iterations = self.iterations.saturating_add(more.iterations);
        self.tool_calls = self.tool_calls.saturating_add(more.tool_calls);
        self.cost_micros = self.cost_micros.saturating_add(more.cost_micros);
    }
}

impl From<v1::AgentUse> for TurnUsage {
    fn from(it: v1::AgentUse) -> Self {
        Self {
            input_tokens: it.input_tokens,
            output_tokens: it.output_tokens,
            iterations: it.iterations,
            tool_calls: it.tool_calls,
            cost_micros: it.cost_micros,
        }
    }
}
