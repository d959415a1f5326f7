//! Circuit breakers: a skill that keeps failing gets no calls until its recovery timeout has passed, then a single
//! half-open probe.
//!
//! Each session has a circuit for each skill that it calls, which consecutive failures open. Each skill has a
//! circuit for all its callers, which a failure rate opens. A call must pass both. Only failures that are the
//! skill's fault count. The caller's mistakes, cancellations, and faults of workers and the gateway change nothing.
//!
//! - [`breaker`]: the state machine; pure, the caller passes the time
//! - [`count`]: conditions that open a closed circuit: consecutive failures, or a rate within a window; pure
//! - [`store`]: circuits by key, up to a maximum number
//! - [`rules`]: thresholds and timeouts, of the gateway and of a manifest
//! - [`shared`]: what an exchange with other gateways needs
//! - [`guard`]: checks the circuits before a call, and reports its outcome

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::limits::MAX_SKILLS;
use openskill_proto::v1::{Circuit, CircuitState, Skill};
use openskill_skill::versions::split;
use tokio::sync::broadcast;

pub(crate) mod breaker;
pub(crate) mod count;
pub(crate) mod guard;
pub(crate) mod rules;
pub(crate) mod shared;
mod store;

#[cfg(test)]
mod tests;

use breaker::{Breaker, Pass, Verdict};
use count::{Consecutive, Count, Window};
use rules::Rules;
use store::CircuitStore;

use crate::call::principal::Principal;
use crate::observe::Observer;
use crate::observe::call_event::CallEvent;
use crate::observe::call_record::CallRecord;
use crate::state::key;
use crate::state::limits::SharedLimit;

/// How many changes a watcher may lag behind before it must read the whole state again.
const CHANGES: usize = 256;

/// The scope of a circuit, as named in a call's events.
const OF_SESSION: &str = "session";
const OF_SKILL: &str = "skill";

/// The circuits of all skills and sessions.
#[derive(Debug)]
pub(crate) struct Circuits {
    sessions: CircuitStore<Consecutive>,
    skills: CircuitStore<Window>,
    defaults: Rules,
    changes: broadcast::Sender<CircuitChange>,
    observer: Arc<Observer>,
}

/// Identifies a session, for its circuits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) principal: &'a Principal,
    /// Empty if the call has no session. In that case only the skill's circuit applies.
    pub(crate) id: &'a str,
}

/// A skill, or one of its versions, for its circuits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CircuitOwner<'a> {
    /// `id`, or `id@version` if calls choose among several versions.
    pub(crate) name: &'a str,
    pub(crate) skill: &'a Skill,
}

/// A circuit that changed, and its principal.
#[derive(Debug, Clone)]
pub(crate) struct CircuitChange {
    /// Empty for a skill's circuit, or for the anonymous principal.
    pub(crate) principal: String,
    pub(crate) circuit: Circuit,
}

/// Proof that both circuits admitted a call. Returned with the call's verdict.
#[derive(Debug)]
pub(crate) struct Passes {
    session: Option<(String, Pass)>,
    skill: Option<Pass>,
    rules: Rules,
}

/// The open circuit that refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OpenCircuit {
    retry_after: Duration,
    /// True for the session's circuit, false for the skill's.
    pub(crate) of_session: bool,
}

impl OpenCircuit {
    /// The retry delay, in milliseconds.
    pub(crate) fn retry_after_ms(self) -> u64 {
        millis(self.retry_after)
    }

    /// Whose circuit is open: `session` or `skill`.
    pub(crate) fn owner(self) -> &'static str {
        if self.of_session { OF_SESSION } else { OF_SKILL }
    }

    /// Describes, in words for a message, whom the circuit affects.
    pub(crate) fn scope(self) -> &'static str {
        if self.of_session { "in this session" } else { "for all callers" }
    }
}

impl Circuits {
    pub(crate) fn new(defaults: Rules, observer: Arc<Observer>) -> Self {
        Self {
            sessions: CircuitStore::new(SharedLimit::SessionCircuits.bound()),
            skills: CircuitStore::new(2 * MAX_SKILLS),
            defaults,
            changes: broadcast::Sender::new(CHANGES),
            observer,
        }
    }

    /// Admits a call to a skill if neither circuit is open. Notes in the call's record which circuits change.
    pub(crate) fn admit(
        &self,
        owner: CircuitOwner<'_>,
        session: Session<'_>,
        now: Instant,
        record: &CallRecord,
    ) -> Result<Passes, OpenCircuit> {
        let (rules, circuit) = (self.defaults.for_skill(owner.skill), owner.name);
        let mut passes = Passes { session: None, skill: None, rules };
        if rules.session.threshold > 0 && !session.id.is_empty() {
            let key = session.key(circuit);
            let changed = |state| self.change(record, OF_SESSION, &key, state, Duration::ZERO);
            let pass = self.sessions.admit(&key, now, changed);
            let pass = pass.map_err(|retry_after| OpenCircuit { retry_after, of_session: true })?;
            passes.session = Some((key, pass));
        }
        if rules.skill.minimum_calls > 0 {
            let changed = |state| self.change(record, OF_SKILL, &skill_key(circuit), state, Duration::ZERO);
            match self.skills.admit(circuit, now, changed) {
                Ok(pass) => passes.skill = Some(pass),
                Err(retry_after) => {
                    // Release the session's probe, because the call does not run.
                    self.report(circuit, passes, Verdict::Ignored, now, record);
                    return Err(OpenCircuit { retry_after, of_session: false });
                }
            }
        }
        Ok(passes)
    }

    /// Reports how an admitted call ended. Notes in its record which circuits change.
    pub(crate) fn report(&self, circuit: &str, passes: Passes, verdict: Verdict, now: Instant, record: &CallRecord) {
        let Passes { session, skill, rules } = passes;
        if let Some((key, pass)) = session {
            let changed = |state| self.change(record, OF_SESSION, &key, state, rules.session.recovery);
            self.sessions.report(&key, pass, verdict, &rules.session, now, changed);
        }
        if let Some(pass) = skill {
            let changed = |state| self.change(record, OF_SKILL, &skill_key(circuit), state, rules.skill.recovery);
            self.skills.report(circuit, pass, verdict, &rules.skill, now, changed);
        }
    }

    /// Returns the open circuit that would refuse a call. Does not change it.
    pub(crate) fn peek(&self, owner: CircuitOwner<'_>, session: Session<'_>, now: Instant) -> Option<OpenCircuit> {
        let (rules, circuit) = (self.defaults.for_skill(owner.skill), owner.name);
        let has_own = rules.session.threshold > 0 && !session.id.is_empty();
        let own = has_own.then(|| self.sessions.retry_after(&session.key(circuit), now)).flatten();
        if let Some(retry_after) = own {
            return Some(OpenCircuit { retry_after, of_session: true });
        }
        let has_all = rules.skill.minimum_calls > 0;
        let of_all = has_all.then(|| self.skills.retry_after(circuit, now)).flatten();
        of_all.map(|retry_after| OpenCircuit { retry_after, of_session: false })
    }

    /// Lists the circuits of one skill or all, and of one session or all, together with the skills' circuits. Sorts
    /// them by skill and session. An empty name matches all.
    pub(crate) fn list(&self, skill_id: &str, session_id: &str, now: Instant) -> Vec<CircuitChange> {
        let mut all = Vec::new();
        self.sessions.for_each(|key, breaker| {
            if matches(key, skill_id, session_id) {
                all.push(CircuitChange::from_breaker(key, breaker, now));
            }
        });
        self.skills.for_each(|id, breaker| {
            if belongs_to(id, skill_id) {
                all.push(CircuitChange::from_breaker(&skill_key(id), breaker, now));
            }
        });
        all.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
        all
    }

    /// Returns the skills whose circuit is open or half-open.
    pub(crate) fn not_closed(&self) -> Vec<(String, CircuitState)> {
        let mut all = Vec::new();
        self.skills.for_each(|id, breaker| all.push((id.to_owned(), breaker.state())));
        all.retain(|(_, state)| *state != CircuitState::Closed);
        all
    }

    /// Counts the session circuits that are half-open, and those that are open.
    pub(crate) fn count_sessions(&self) -> [usize; 2] {
        let mut counts = [0; 2];
        self.sessions.for_each(|_, breaker| match breaker.state() {
            CircuitState::HalfOpen => counts[0] += 1,
            CircuitState::Open => counts[1] += 1,
            CircuitState::Closed | CircuitState::Unspecified => {}
        });
        counts
    }

    /// Closes circuits on an operator's behalf: those of one skill or all, and of one session, or of all sessions
    /// together with the skills' circuits. Returns how many were not closed.
    pub(crate) fn reset(&self, skill_id: &str, session_id: &str) -> usize {
        let closed = |key: &str| self.publish(key, CircuitState::Closed, Duration::ZERO);
        let of_sessions = self.sessions.reset(|key| matches(key, skill_id, session_id), closed);
        if !session_id.is_empty() {
            return of_sessions;
        }
        of_sessions + self.skills.reset(|id| belongs_to(id, skill_id), |id| closed(&skill_key(id)))
    }

    /// Subscribes to changes of all circuits.
    pub(crate) fn changes(&self) -> broadcast::Receiver<CircuitChange> {
        self.changes.subscribe()
    }

    /// Notes that a call changed a circuit, and publishes it.
    fn change(&self, record: &CallRecord, scope: &'static str, key: &str, state: CircuitState, recovery: Duration) {
        let name = match state {
            CircuitState::Open => "open",
            CircuitState::HalfOpen => "half_open",
            _ => "closed",
        };
        record.note(|| CallEvent::Circuit { scope, state: name });
        self.publish(key, state, recovery);
    }

    /// Publishes a change. Must be called while the circuit is locked, so that changes arrive in order.
    fn publish(&self, key: &str, state: CircuitState, recovery: Duration) {
        let retry_after = if state == CircuitState::Open { recovery } else { Duration::ZERO };
        let change = CircuitChange::new(key, state, 0, retry_after);
        self.observer.circuit_changed(&change.circuit);
        // Sending fails if no watcher exists.
        let _ = self.changes.send(change);
    }
}

impl Session<'_> {
    fn key(&self, skill_id: &str) -> String {
        key::join([self.principal.name(), self.id, skill_id])
    }
}

impl CircuitChange {
    fn new(key: &str, state: CircuitState, failures: u32, retry_after: Duration) -> Self {
        let [principal, session_id, skill_id] = key::split(key).map(str::to_owned);
        let (state, retry_after_ms) = (state.into(), millis(retry_after));
        Self { principal, circuit: Circuit { skill_id, session_id, state, failures, retry_after_ms } }
    }

    /// Describes a circuit for listings.
    fn from_breaker<C: Count>(key: &str, breaker: &Breaker<C>, now: Instant) -> Self {
        let state = breaker.state();
        let retry_after = breaker.retry_after(now).filter(|_| state == CircuitState::Open);
        Self::new(key, state, breaker.failures(now), retry_after.unwrap_or_default())
    }

    fn sort_key(&self) -> (&str, &str, &str) {
        (&self.circuit.skill_id, &self.circuit.session_id, &self.principal)
    }
}

/// Returns the key of a skill's circuit.
fn skill_key(skill_id: &str) -> String {
    key::join(["", "", skill_id])
}

/// Whether a circuit belongs to this skill, or to this version of it. An empty name matches all.
fn belongs_to(circuit: &str, skill_id: &str) -> bool {
    skill_id.is_empty() || circuit == skill_id || split(circuit).0 == skill_id
}

/// Whether `key` is the circuit of this skill and session. An empty name matches all.
fn matches(key: &str, skill_id: &str, session_id: &str) -> bool {
    let [_, its_session, its_skill] = key::split(key);
    belongs_to(its_skill, skill_id) && (session_id.is_empty() || its_session == session_id)
}

/// Converts to milliseconds, rounded up, so that a caller that waits this long is not too early.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
