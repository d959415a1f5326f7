//! A worker that can run a skill.

use std::sync::Arc;

use super::latency::Latency;
use super::worker::Worker;

/// A worker that can run a skill.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) worker: Arc<Worker>,
    /// How long calls of the skill take there.
    pub(crate) latency: Arc<Latency>,
}
