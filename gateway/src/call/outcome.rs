//! How a call ended, at the gateway or at a worker.

use openskill_proto::v1::{AgentUse, ErrorCode, ExecuteResult, Repair, SkillError};

use super::preparation::Preparation;
use super::request::Call;

/// How a call ended.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) result: ExecuteResult,
    pub(crate) attempts: u32,
    /// Whether the skill may have had an effect.
    pub(crate) may_have_run: bool,
    /// The repairs that were made to the arguments.
    pub(crate) repairs: Vec<Repair>,
    /// The parameters that were filled with their defaults, as JSON Pointers.
    pub(crate) defaults: Vec<String>,
    /// Warnings from the gateway, in addition to those from the skill.
    pub(crate) warnings: Vec<String>,
    /// What the agent used. None if the skill is not an agent.
    pub(crate) agent: Option<AgentUse>,
}

impl Outcome {
    /// Creates the outcome of a call that failed before it reached a worker.
    pub(crate) fn from_error(error: SkillError) -> Self {
        Self::from_result(ExecuteResult { error: Some(error), ..ExecuteResult::default() })
    }

    /// Creates the outcome of a call that was cancelled by its id.
    pub(crate) fn cancelled(call: &Call, may_have_run: bool) -> Self {
        let error = SkillError::new(ErrorCode::Cancelled, "the call was cancelled by its id");
        Self { attempts: call.stage.latest_attempt().number, may_have_run, ..Self::from_error(error) }
    }

    /// Creates an outcome from a result, without repairs, warnings or other facts.
    pub(crate) fn from_result(result: ExecuteResult) -> Self {
        let (repairs, defaults, warnings) = Default::default();
        Self { result, attempts: 0, may_have_run: false, repairs, defaults, warnings, agent: None }
    }

    /// Recommends a retry only where it does no harm: the skill did not run, or may run twice, or the call has an
    /// idempotency key and therefore runs at most once.
    #[must_use]
    pub(crate) fn with_retry_advice(mut self, is_idempotent: bool, has_key: bool) -> Self {
        if let Some(error) = &mut self.result.error
            && self.may_have_run
            && !is_idempotent
            && !has_key
        {
            (error.retryable, error.retry_after_ms) = (false, 0);
        }
        self
    }

    /// Adds the repairs, defaults and warnings of the preparation.
    #[must_use]
    pub(crate) fn with_preparation(self, preparation: Preparation) -> Self {
        let warnings = self.warnings.into_iter().chain(preparation.warnings).collect();
        Self { repairs: preparation.repairs, defaults: preparation.defaults, warnings, ..self }
    }
}

#[cfg(test)]
mod tests {
    use openskill_proto::error::TABLE;

    use super::*;

    #[test]
    fn a_retry_is_recommended_only_where_it_can_do_no_harm() {
        for row in TABLE {
            for case in 0..8 {
                let [may_have_run, is_idempotent, has_key] = [1, 2, 4].map(|bit| case & bit != 0);
                let error = SkillError::new(row.code, "").with_retry_after_ms(5);
                let failed = Outcome { may_have_run, ..Outcome::from_error(error) };
                let error = failed.with_retry_advice(is_idempotent, has_key).result.error.unwrap();
                let is_safe = !may_have_run || is_idempotent || has_key;
                let expected = (row.retryable && is_safe, if is_safe { 5 } else { 0 });
                let what = format!("{:?}: ran {may_have_run}, idempotent {is_idempotent}, key {has_key}", row.code);
                assert_eq!((error.retryable, error.retry_after_ms), expected, "{what}");
            }
        }
    }
}
