//! What a gateway needs to know, resolved and valid. Whoever builds it read files and environment; nothing here does.

use std::time::Duration;

pub use crate::circuit::rules::{Rules as CircuitRules, SessionRules, SkillRules};
pub use crate::workers::source::{Source, SourceError};

/// A gateway's settings.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where workers are looked for.
    pub workers: Vec<Source>,
    /// How often names and folders among them are looked at again.
    pub refresh_interval: Duration,
    /// The longest a call may take unless its caller or its skill's manifest says less.
    pub default_timeout: Duration,
    /// Calls at once, over all connections. More are refused: `OVERLOADED`.
    pub max_in_flight: usize,
    /// The same for each skill.
    pub max_in_flight_of_skill: usize,
    /// Gives workers fewer calls when calls wait there too long.
    pub adaptive_limit: bool,
    /// When circuits open, unless a skill's manifest says otherwise.
    pub circuits: CircuitRules,
    /// How long idempotency keys live after their calls ended.
    pub idempotency_lifetime: Duration,
    /// Connections at once. More wait to be accepted.
    pub max_connections: usize,
    /// How long calls may take to finish after a shutdown began.
    pub drain_timeout: Duration,
}
