//! What turns use: tokens, requests, calls and cost.

use openskill_proto::v1;
use serde::{Deserialize, Serialize};

/// What a turn used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Used {
    /// Tokens read by the model.
    pub input_tokens: u64,
    /// Tokens written by the model.
    pub output_tokens: u64,
    /// Requests to the model.
    pub iterations: u32,
    /// Tool calls.
    pub tool_calls: u32,
    /// Cost, in millionths.
    pub cost_micros: u64,
}

impl Used {
    /// All that a sub-agent was granted. What has no bound counts nothing.
    pub fn whole(granted: v1::Delegation) -> Self {
        Self {
            input_tokens: granted.max_tokens.unwrap_or_default(),
            output_tokens: 0,
            iterations: granted.max_iterations.unwrap_or_default(),
            tool_calls: granted.max_tool_calls.unwrap_or_default(),
            cost_micros: granted.max_cost_micros.unwrap_or_default(),
        }
    }

    /// Adds what else was used.
    pub fn add(&mut self, more: Self) {
        self.input_tokens = self.input_tokens.saturating_add(more.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(more.output_tokens);
        self.iterations = self.iterations.saturating_add(more.iterations);
        self.tool_calls = self.tool_calls.saturating_add(more.tool_calls);
        self.cost_micros = self.cost_micros.saturating_add(more.cost_micros);
    }
}

impl From<v1::AgentUse> for Used {
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
