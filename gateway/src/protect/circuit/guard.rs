//! The guard around one call: asks the circuits before it, reports after it.

use std::time::Instant;

use openskill_proto::v1::{Blame, CircuitState, ErrorCode, Skill, SkillError};

use super::breaker::Verdict;
use super::{Circuits, Passes, Refused, Session};
use crate::call::outcome::Outcome;
use crate::observe::call_event::CallEvent;
use crate::observe::call_record::CallRecord;

/// A call that both circuits admitted. Dropped without a report, it says nothing about its skill.
pub(crate) struct CircuitGuard<'a> {
    circuits: &'a Circuits,
    skill_id: &'a str,
    record: &'a CallRecord,
    passes: Option<Passes>,
}

impl<'a> CircuitGuard<'a> {
    /// Asks the circuits of the skill and the session.
    ///
    /// # Errors
    /// `CIRCUIT_OPEN`, with the time until the next half-open probe.
    pub(crate) fn admit(
        circuits: &'a Circuits,
        skill: &'a Skill,
        session: Session<'_>,
        record: &'a CallRecord,
    ) -> Result<Self, SkillError> {
        let admitted = circuits.admit(skill, session, Instant::now(), |scope, state| changed(record, scope, state));
        let passes = admitted.map_err(|refused| {
            record.note(|| CallEvent::Circuit { scope: refused.of(), state: "refused" });
            refusal(&skill.id, refused)
        })?;
        Ok(Self { circuits, skill_id: &skill.id, record, passes: Some(passes) })
    }

    /// Reports how the call ended.
    pub(crate) fn report(mut self, outcome: &Outcome) {
        self.give_back(verdict(outcome));
    }

    fn give_back(&mut self, verdict: Verdict) {
        if let Some(passes) = self.passes.take() {
            let told = |scope, state| changed(self.record, scope, state);
            self.circuits.report(self.skill_id, passes, verdict, Instant::now(), told);
        }
    }
}

impl Drop for CircuitGuard<'_> {
    fn drop(&mut self) {
        self.give_back(Verdict::Ignored);
    }
}

/// A circuit changed because of the call.
fn changed(record: &CallRecord, scope: &'static str, state: CircuitState) {
    let state = match state {
        CircuitState::Open => "open",
        CircuitState::HalfOpen => "half_open",
        _ => "closed",
    };
    record.note(|| CallEvent::Circuit { scope, state });
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
