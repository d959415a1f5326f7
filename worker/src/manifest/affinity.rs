//! Which calls of a skill, and of its toolset, go to one worker.

use serde::Deserialize;

/// What the calls that go to one worker have in common.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Affinity {
    /// None: each call goes to the worker with the lower expected latency.
    #[default]
    None,
    /// The session. Calls without a session go to any worker.
    Session,
    /// The caller: the principal, and the session if there is one. Calls without a session share a worker too.
    Caller,
}
