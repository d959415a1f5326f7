//! On whose behalf a call runs.

use std::fmt;
use std::sync::Arc;

/// The identity that a call's fair share, idempotency keys, sessions, affinity and artifacts belong to.
///
/// Cheap to clone. Two callers with the same principal are the same caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Principal(Arc<str>);

impl Principal {
    /// The caller that nothing identifies.
    pub(crate) fn anonymous() -> Self {
        Self(Arc::from(""))
    }

    /// The principal with this name on the wire.
    pub(crate) fn of(name: &str) -> Self {
        Self(Arc::from(name))
    }

    /// Its name on the wire. Empty for the anonymous principal.
    pub(crate) fn name(&self) -> &str {
        &self.0
    }
}

impl Default for Principal {
    fn default() -> Self {
        Self::anonymous()
    }
}

impl fmt::Display for Principal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "anonymous" } else { &self.0 })
    }
}
