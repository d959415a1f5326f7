//! The owner of what a client comes back for: a task, a stream, a long result.

use serde::{Deserialize, Serialize};

/// A principal, at the view where it began. Another view has scopes of its own, which do not open what this one's protect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub(crate) principal: String,
    /// Empty for the view of `/mcp`.
    pub(crate) view: String,
}

impl Owner {
    /// How much memory it takes, in bytes, about.
    pub(crate) fn size(&self) -> usize {
        self.principal.len() + self.view.len()
    }
}
