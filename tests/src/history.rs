//! Histories of operations: what clients and skills saw while gateways and workers were killed, and whether it is allowed.
//!
//! ```text
//! plan (seed) ──> clients ──────────────┐
//!             └─> faults -> stage       ├─> journal (one line an event) ──> check ──> violations
//!                            skills ────┤
//!                            audit ─────┘
//! ```
//!
//! - [`check`]: finds violations in a history; [`violation`]: what they are
//! - [`plan`]: what clients do and when something is killed, from a seed
//! - [`stage`]: the processes, and their store; [`client`]: submits, cancels and reads; [`audit`]: what is there at the end
//! - [`journal`]: the file of a history
//! - [`kill`] and [`boundaries`]: the scenarios; [`report`]: how one went

pub mod audit;
pub mod boundaries;
pub mod check;
pub mod client;
pub mod journal;
pub mod kill;
pub mod plan;
pub mod report;
pub mod stage;
#[cfg(test)]
mod tests;
pub mod violation;

use serde::{Deserialize, Serialize};

/// What a client, a skill or the audit saw. Calls have keys that are unique in a history; the gateway knows them as trace ids.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A client is about to submit a call.
    Submitted {
        key: String,
        /// Whether it has an idempotency key. Such a call may be submitted again.
        has_idempotency_key: bool,
        /// When it may start, in milliseconds since 1970.
        start_at_ms: u64,
        time_ms: u64,
    },
    /// The call was stored.
    Acknowledged { key: String, operation: String },
    /// The call was certainly not stored.
    Refused { key: String, reason: String },
    /// The connection broke before an answer: the call may have been stored.
    Unknown { key: String, reason: String },
    /// A skill started. The skill writes this.
    Effect {
        key: String,
        /// Identifies the start.
        run: String,
        /// Whether the skill may start again.
        idempotent: bool,
        time_ms: u64,
    },
    /// A client received an event of a stream.
    Watched { key: String, operation: String, number: u64 },
    /// A client read how an operation ended.
    Result { key: String, operation: String, outcome: Outcome },
    /// A cancellation was acknowledged.
    Cancelled {
        key: String,
        operation: String,
        /// Whether the skill may have started before, as far as the client knows.
        may_have_started: bool,
    },
    /// The audit found an operation in a list.
    Listed { key: String, operation: String },
    /// Something was killed. For readers.
    Fault { what: String },
    /// The audit read an operation. Without an outcome, it has not ended.
    Final { key: String, operation: String, state: String, outcome: Option<Outcome> },
}

/// How an operation ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub success: bool,
    /// The error code. Empty for a success.
    pub code: String,
    pub may_have_run: bool,
    /// The run that the skill's result names. Empty for a failure.
    pub run: String,
    pub message: String,
}

impl Event {
    /// The call. None for a fault.
    #[must_use]
    pub fn key(&self) -> Option<&str> {
        match self {
            Self::Submitted { key, .. }
            | Self::Acknowledged { key, .. }
            | Self::Refused { key, .. }
            | Self::Unknown { key, .. }
            | Self::Effect { key, .. }
            | Self::Watched { key, .. }
            | Self::Result { key, .. }
            | Self::Cancelled { key, .. }
            | Self::Listed { key, .. }
            | Self::Final { key, .. } => Some(key),
            Self::Fault { .. } => None,
        }
    }
}
