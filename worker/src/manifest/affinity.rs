//! Controls which calls of a skill and its toolset go to the same worker.

use serde::Deserialize;

/// The property that calls have in common that go to the same worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Affinity {
    /// No property. Each call goes to the worker with the lower expected latency.
    #[default]
    None,
    /// The session. Calls without a session go to any worker.
    Session,
    /// The caller: the principal, and the session if the call has one. A principal's calls without a session share
    /// a worker too.
    Caller,
}
