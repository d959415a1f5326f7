//! A task as it is stored.

use serde::{Deserialize, Serialize};

use crate::call::principal::GovernedSkill;
use crate::mcp::owner::Owner;

/// What became of a task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    /// The result of its call, a JSON object.
    Completed(String),
    /// An error of the protocol, a JSON object.
    Failed(String),
    /// Its owner ended it.
    Cancelled,
}

impl End {
    /// How much of the store it takes, in bytes.
    fn size(&self) -> usize {
        match self {
            Self::Completed(json) | Self::Failed(json) => json.len(),
            Self::Cancelled => 0,
        }
    }
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) owner: Owner,
    /// What it runs.
    #[serde(default)]
    pub(crate) skill: GovernedSkill,
    /// Milliseconds since 1970.
    pub(crate) created_ms: u64,
    pub(crate) updated_ms: u64,
    /// How long it is kept after it was created.
    pub(crate) ttl_ms: u64,
    /// None while it runs.
    pub(crate) end: Option<End>,
}

impl Record {
    pub(crate) fn expires_ms(&self) -> u64 {
        self.created_ms.saturating_add(self.ttl_ms)
    }

    /// About how much of the store it takes, in bytes.
    pub(crate) fn size(&self) -> usize {
        256 + self.owner.size() + self.end.as_ref().map_or(0, End::size)
    }
}
