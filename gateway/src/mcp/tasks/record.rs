//! The stored form of a task.

use serde::{Deserialize, Serialize};

use crate::call::principal::GovernedSkill;
use crate::mcp::owner::Owner;

/// How a task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TaskOutcome {
    /// The result of its call, as a JSON object.
    Completed(String),
    /// A protocol error, as a JSON object.
    Failed(String),
    /// Its owner cancelled it.
    Cancelled,
}

impl TaskOutcome {
    /// The size in the store, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Completed(json) | Self::Failed(json) => json.len(),
            Self::Cancelled => 0,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) owner: Owner,
    /// The skill that it runs.
    #[serde(default)]
    pub(crate) skill: GovernedSkill,
    /// Milliseconds since 1970.
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
    /// The time in milliseconds for which it is kept after its creation.
    pub(crate) ttl_ms: u64,
    /// None while it runs.
    pub(crate) end: Option<TaskOutcome>,
}

impl Record {
    pub(crate) fn expires_ms(&self) -> u64 {
        self.created_ms.saturating_add(self.ttl_ms)
    }

    /// Estimates the size in the store, in bytes.
    pub(crate) fn size(&self) -> usize {
        256 + self.owner.size() + self.end.as_ref().map_or(0, TaskOutcome::size)
    }
}
