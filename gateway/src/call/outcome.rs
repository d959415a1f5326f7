//! How a call ended, whoever ended it.

use openskill_proto::v1::{AgentUse, ExecuteResult, Repair, SkillError};

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
    /// What the skill used, if it is an agent.
    pub(crate) agent: Option<AgentUse>,
}

impl Outcome {
    /// A failure before any worker was asked.
    pub(crate) fn failed(error: SkillError) -> Self {
        Self::of(ExecuteResult { error: Some(error), ..ExecuteResult::default() })
    }

    /// This result, of which nothing else is known.
    pub(crate) fn of(result: ExecuteResult) -> Self {
        Self { result, attempts: 0, may_have_run: false, repairs: Vec::new(), warnings: Vec::new(), agent: None }
    }

    /// Recommends a retry only where it can't do harm: the skill did not run, or may run twice, or the call has an idempotency
    /// key, with which it runs once.
    #[must_use]
    pub(crate) fn advising(mut self, is_idempotent: bool, has_key: bool) -> Self {
        if let Some(error) = &mut self.result.error
            && self.may_have_run
            && !is_idempotent
            && !has_key
        {
            (error.retryable, error.retry_after_ms) = (false, 0);
        }
        self
    }

    /// Adds what the caller should know about its arguments.
    #[must_use]
    pub(crate) fn with(self, preparation: Preparation) -> Self {
        let warnings = self.warnings.into_iter().chain(preparation.warnings).collect();
        Self { repairs: preparation.repairs, warnings, ..self }
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
                let failed = Outcome { may_have_run, ..Outcome::failed(error) };
                let error = failed.advising(is_idempotent, has_key).result.error.unwrap();
                let is_safe = !may_have_run || is_idempotent || has_key;
                let expected = (row.retryable && is_safe, if is_safe { 5 } else { 0 });
                let what = format!("{:?}: ran {may_have_run}, idempotent {is_idempotent}, key {has_key}", row.code);
                assert_eq!((error.retryable, error.retry_after_ms), expected, "{what}");
            }
        }
    }
}
