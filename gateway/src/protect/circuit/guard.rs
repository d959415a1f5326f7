//! The guard around one call: asks the circuits before it, reports after it.

use std::time::Instant;

use openskill_proto::v1::{Blame, ErrorCode, Skill, SkillError};

use super::breaker::Verdict;
use super::{Circuits, Passes, Refused, Session};
use crate::call::outcome::Outcome;

/// A call that both circuits admitted. Dropped without a report, it says nothing about its skill.
pub(crate) struct CircuitGuard<'a> {
    circuits: &'a Circuits,
    skill_id: &'a str,
    passes: Option<Passes>,
}

impl<'a> CircuitGuard<'a> {
    /// Asks the circuits of the skill and the session.
    ///
    /// # Errors
    /// `CIRCUIT_OPEN`, with the time until the next half-open probe.
    pub(crate) fn admit(circuits: &'a Circuits, skill: &'a Skill, session: Session<'_>) -> Result<Self, SkillError> {
        let passes = circuits.admit(skill, session, Instant::now()).map_err(|refused| refusal(&skill.id, refused))?;
        Ok(Self { circuits, skill_id: &skill.id, passes: Some(passes) })
    }

    /// Reports how the call ended.
    pub(crate) fn report(mut self, outcome: &Outcome) {
        self.give_back(verdict(outcome));
    }

    fn give_back(&mut self, verdict: Verdict) {
        if let Some(passes) = self.passes.take() {
            self.circuits.report(self.skill_id, passes, verdict, Instant::now());
        }
    }
}

impl Drop for CircuitGuard<'_> {
    fn drop(&mut self) {
        self.give_back(Verdict::Ignored);
    }
}

/// Only what is the skill's fault counts.
fn verdict(outcome: &Outcome) -> Verdict {
    match &outcome.result.error {
        None => Verdict::Success,
        Some(error) if error.blame() == Blame::Skill => Verdict::Failure,
        Some(_) => Verdict::Ignored,
    }
}

fn refusal(skill_id: &str, refused: Refused) -> SkillError {
    let wait_ms = refused.retry_after_ms();
    let (scope, seconds) = (refused.scope(), wait_ms.div_ceil(1000));
    let message =
        format!("the circuit breaker of {skill_id} is open {scope}: use another tool, or try again in {seconds} s");
    SkillError::new(ErrorCode::CircuitOpen, message).with_retry_after_ms(wait_ms)
}
