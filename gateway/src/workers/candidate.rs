//! A worker as a candidate for calls of one skill.

use std::sync::Arc;

use super::latency::Latency;
use super::worker::Worker;

/// A worker that can run a skill.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) worker: Arc<Worker>,
    /// The latency of the skill's calls on this worker.
    pub(crate) latency: Arc<Latency>,
    /// The definition that the worker runs, as [`openskill_proto::v1::Skill::definition_hash`].
    pub(crate) definition_hash: Arc<str>,
}
