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
    /// The definition that it runs, as [`openskill_proto::v1::Skill::definition_hash`].
    pub(crate) definition_hash: Arc<str>,
}
