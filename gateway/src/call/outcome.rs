//! How a call ended, whoever ended it.

use openskill_proto::v1::{ExecuteResult, Repair, SkillError};

use super::preparation::Preparation;

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) result: ExecuteResult,
    pub(crate) attempts: u32,
    /// Whether the skill may have had an effect.
    pub(crate) may_have_run: bool,
    /// What was changed in the arguments.
    pub(crate) repairs: Vec<Repair>,
    /// The gateway's own warnings, beside those of the skill.
    pub(crate) warnings: Vec<String>,
}

impl Outcome {
    /// A failure before any worker was asked.
    pub(crate) fn failed(error: SkillError) -> Self {
        let result = ExecuteResult { error: Some(error), ..ExecuteResult::default() };
        Self { result, attempts: 0, may_have_run: false, repairs: Vec::new(), warnings: Vec::new() }
    }

    /// Adds what the caller should know about its arguments.
    #[must_use]
    pub(crate) fn with(self, preparation: Preparation) -> Self {
        let warnings = self.warnings.into_iter().chain(preparation.warnings).collect();
        Self { repairs: preparation.repairs, warnings, ..self }
    }
}
