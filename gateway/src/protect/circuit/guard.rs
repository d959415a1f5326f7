//! Guards one call: checks the circuits before it, and reports its outcome after it.

use std::time::Instant;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::breaker::Verdict;
use super::{CircuitOwner, Circuits, OpenCircuit, Passes, Session};
use crate::call::outcome::Outcome;
use crate::observe::call_event::CallEvent;
use crate::observe::call_record::CallRecord;

/// A call that both circuits admitted. If it is dropped without a report, the circuits ignore the call.
pub(crate) struct CircuitGuard<'a> {
    circuits: &'a Circuits,
    owner: CircuitOwner<'a>,
    record: &'a CallRecord,
    passes: Option<Passes>,
}

impl<'a> CircuitGuard<'a> {
    /// Checks the circuits of the skill, or of its version, and of the session.
    ///
    /// # Errors
    /// `CIRCUIT_OPEN`, with the time until the next half-open probe.
    pub(crate) fn admit(
        circuits: &'a Circuits,
        owner: CircuitOwner<'a>,
        session: Session<'_>,
        record: &'a CallRecord,
    ) -> Result<Self, SkillError> {
        let admitted = circuits.admit(owner, session, Instant::now(), record);
        let passes = admitted.map_err(|refused| {
            record.note(|| CallEvent::Circuit { scope: refused.owner(), state: "refused" });
            refusal(owner.name, refused)
        })?;
        Ok(Self { circuits, owner, record, passes: Some(passes) })
    }

    /// Reports the outcome to both circuits.
    pub(crate) fn report(mut self, outcome: &Outcome) {
        self.give_back(verdict(outcome));
    }

    fn give_back(&mut self, verdict: Verdict) {
        if let Some(passes) = self.passes.take() {
            self.circuits.report(self.owner.name, passes, verdict, Instant::now(), self.record);
        }
    }
}

impl Drop for CircuitGuard<'_> {
    fn drop(&mut self) {
        self.give_back(Verdict::Ignored);
    }
}

/// Counts only the skill's faults as failures.
fn verdict(outcome: &Outcome) -> Verdict {
    match &outcome.result.error {
        None => Verdict::Success,
        Some(error) if error.blame() == Blame::Skill => Verdict::Failure,
        Some(_) => Verdict::Ignored,
    }
}

fn refusal(skill_id: &str, refused: OpenCircuit) -> SkillError {
    let wait_ms = refused.retry_after_ms();
    let (scope, seconds) = (refused.scope(), wait_ms.div_ceil(1000));
    let message =
        format!("the circuit breaker of {skill_id} is open {scope}: use another tool, or try again in {seconds} s");
    SkillError::new(ErrorCode::CircuitOpen, message).with_retry_after_ms(wait_ms)
}
