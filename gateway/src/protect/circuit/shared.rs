//! The circuits of skills that gateways share: what one of them has to say, and what it hears from the others.

use std::time::Instant;

use super::breaker::SharedState;
use super::count::{Bucket, WindowCalls};
use super::{Circuits, skill_key};

/// The circuit of a skill, for an exchange.
#[derive(Debug, Clone)]
pub(crate) struct SkillCircuit {
    pub(crate) name: String,
    /// Identifies the state in this process.
    pub(crate) epoch: u64,
    pub(crate) state: SharedState,
    /// Whether calls wait for this gateway to claim the probe.
    pub(crate) wants_claim: bool,
    /// Whether a probe of this gateway is in flight.
    pub(crate) is_probing: bool,
}

/// Calls of a skill that other gateways have not heard of.
#[derive(Debug, Clone)]
pub(crate) struct UncountedCalls {
    pub(crate) name: String,
    pub(crate) calls: WindowCalls,
}

impl Circuits {
    /// Lists the circuits of skills that have changed at least once. Those that are half-open are this gateway's until
    /// `claim_end`.
    pub(crate) fn skill_circuits(&self, now: Instant, claim_end: Instant) -> Vec<SkillCircuit> {
        let mut all = Vec::new();
        self.skills.for_each(|name, breaker| {
            if breaker.has_changed() {
                all.push(SkillCircuit {
                    name: name.to_owned(),
                    epoch: breaker.epoch(),
                    state: breaker.shared_state(claim_end),
                    wants_claim: breaker.wants_claim(now),
                    is_probing: breaker.is_probing(),
                });
            }
        });
        all
    }

    /// Takes the calls that were counted since the last time, of circuits whose epoch `is_known`.
    pub(crate) fn take_uncounted(&self, is_known: impl Fn(&str, u64) -> bool) -> Vec<UncountedCalls> {
        let mut all = Vec::new();
        self.skills.for_each_mut(|name, breaker| {
            if is_known(name, breaker.epoch())
                && let Some(calls) = breaker.take_uncounted()
            {
                all.push(UncountedCalls { name: name.to_owned(), calls });
            }
        });
        all
    }

    /// Notes how many calls other gateways counted. Opens the circuit if that makes too many failures, of which one `is_new`.
    pub(crate) fn count_elsewhere(&self, name: &str, elsewhere: Bucket, is_new: bool, now: Instant) {
        self.skills.change(name, |breaker| {
            if let Some(state) = breaker.count_elsewhere(elsewhere, is_new, now) {
                self.publish(&skill_key(name), state, breaker.retry_after(now).unwrap_or_default());
            }
        });
    }

    /// Enters the state that the store says is the newest, and returns its epoch. None if an operator has closed the circuit
    /// here since epoch `last`.
    pub(crate) fn follow(&self, name: &str, state: SharedState, last: u64, now: Instant) -> Option<u64> {
        self.skills.change_or_insert(name, |breaker| {
            if breaker.was_reset() && breaker.epoch() != last {
                return None;
            }
            if let Some(changed) = breaker.follow(state, now) {
                self.publish(&skill_key(name), changed, breaker.retry_after(now).unwrap_or_default());
            }
            Some(breaker.epoch())
        })
    }

    /// Notes what the store says about a state of this gateway, unless it has changed since.
    pub(crate) fn confirm(&self, name: &str, epoch: u64, state: SharedState) {
        self.skills.change(name, |breaker| {
            if breaker.epoch() == epoch {
                breaker.confirm(state);
            }
        });
    }

    /// Lets every circuit continue without the store.
    pub(crate) fn detach(&self) {
        self.skills.for_each_mut(|_, breaker| breaker.detach());
    }

    /// Whether the circuit of a skill has any state.
    pub(crate) fn has_skill(&self, name: &str) -> bool {
        self.skills.change(name, |_| ()).is_some()
    }
}
