//! Circuit breakers: a skill that keeps failing gets no calls for a while, then a single half-open probe.
//!
//! A session has a circuit for each skill it calls: consecutive failures open it. A skill has one for all its callers: a
//! failure rate opens it. A call needs both. Only failures that are the skill's fault count; the caller's mistakes,
//! cancellations, and what workers and the gateway do wrong change nothing.
//!
//! - [`breaker`]: the state machine; pure, takes `now`
//! - [`count`]: what opens a closed circuit: consecutive failures, or a rate within a window; pure
//! - [`store`]: circuits by key, bounded however many sessions come
//! - [`rules`]: thresholds and timeouts, of the gateway and of a manifest
//! - [`guard`]: asks before a call, reports after it

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::limits::MAX_SKILLS;
use openskill_proto::v1::{Circuit, CircuitState, Skill};
use tokio::sync::broadcast;

pub(crate) mod breaker;
pub(crate) mod count;
pub(crate) mod guard;
pub(crate) mod rules;
mod store;

#[cfg(test)]
mod model;

use breaker::{Pass, Verdict};
use count::{Consecutive, Window};
use rules::Rules;
use store::{Listed, Store};

use crate::call::principal::Principal;
use crate::observe::Observer;
use crate::state::key;
use crate::state::limits::SharedLimit;

/// How many changes a slow watcher may lag behind before it has to read the whole state again.
const CHANGES: usize = 256;

/// Whose circuit it is, in events of a call.
const OF_SESSION: &str = "session";
const OF_SKILL: &str = "skill";

/// All circuits of a gateway.
#[derive(Debug)]
pub(crate) struct Circuits {
    sessions: Store<Consecutive>,
    skills: Store<Window>,
    defaults: Rules,
    changes: broadcast::Sender<Change>,
    observer: Arc<Observer>,
}

/// Whose calls count towards a session circuit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Session<'a> {
    pub(crate) principal: &'a Principal,
    /// Empty: the call has none, and only the skill's own circuit counts.
    pub(crate) id: &'a str,
}

/// A circuit that changed, and whose it is.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    /// Empty for a skill's own circuit, and for the anonymous principal.
    pub(crate) principal: String,
    pub(crate) circuit: Circuit,
}

/// Both circuits admitted a call. To be returned with the verdict on it.
#[derive(Debug)]
pub(crate) struct Passes {
    session: Option<(String, Pass)>,
    skill: Option<Pass>,
    rules: Rules,
}

/// An open circuit refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    retry_after: Duration,
    /// It is the session's circuit, not the skill's.
    pub(crate) of_session: bool,
}

impl Refused {
    /// When to come back.
    pub(crate) fn retry_after_ms(self) -> u64 {
        millis(self.retry_after)
    }

    /// Whose circuit is open.
    pub(crate) fn of(self) -> &'static str {
        if self.of_session { OF_SESSION } else { OF_SKILL }
    }

    /// For whom the circuit is open, in words.
    pub(crate) fn scope(self) -> &'static str {
        if self.of_session { "in this session" } else { "for all callers" }
    }
}

impl Circuits {
    pub(crate) fn new(defaults: Rules, observer: Arc<Observer>) -> Self {
        Self {
            sessions: Store::new(SharedLimit::SessionCircuits.bound()),
            skills: Store::new(2 * MAX_SKILLS),
            defaults,
            changes: broadcast::Sender::new(CHANGES),
            observer,
        }
    }

    /// Admits a call to a skill, if neither circuit is open. `told` hears whose circuit changes because of it, and how.
    pub(crate) fn admit(
        &self,
        skill: &Skill,
        session: Session<'_>,
        now: Instant,
        told: impl Fn(&'static str, CircuitState),
    ) -> Result<Passes, Refused> {
        let rules = self.defaults.for_skill(skill);
        let mut passes = Passes { session: None, skill: None, rules };
        if rules.session.is_on() && !session.id.is_empty() {
            let key = session.key(&skill.id);
            let half_open = |state| {
                told(OF_SESSION, state);
                self.publish(&key, state, Duration::ZERO);
            };
            let pass = self.sessions.admit(&key, now, half_open);
            let pass = pass.map_err(|retry_after| Refused { retry_after, of_session: true })?;
            passes.session = Some((key, pass));
        }
        if rules.skill.is_on() {
            let half_open = |state| {
                told(OF_SKILL, state);
                self.publish(&of_skill(&skill.id), state, Duration::ZERO);
            };
            match self.skills.admit(&skill.id, now, half_open) {
                Ok(pass) => passes.skill = Some(pass),
                Err(retry_after) => {
                    // The session's probe was not made.
                    self.report(&skill.id, passes, Verdict::Ignored, now, told);
                    return Err(Refused { retry_after, of_session: false });
                }
            }
        }
        Ok(passes)
    }

    /// Reports how an admitted call ended. `told` is as in [`Circuits::admit`].
    pub(crate) fn report(
        &self,
        skill_id: &str,
        passes: Passes,
        verdict: Verdict,
        now: Instant,
        told: impl Fn(&'static str, CircuitState),
    ) {
        let Passes { session, skill, rules } = passes;
        if let Some((key, pass)) = session {
            let changed = |state| {
                told(OF_SESSION, state);
                self.publish(&key, state, rules.session.recovery);
            };
            self.sessions.report(&key, pass, verdict, &rules.session, now, changed);
        }
        if let Some(pass) = skill {
            let changed = |state| {
                told(OF_SKILL, state);
                self.publish(&of_skill(skill_id), state, rules.skill.recovery);
            };
            self.skills.report(skill_id, pass, verdict, &rules.skill, now, changed);
        }
    }

    /// Whether a call would be refused now. Asking changes nothing.
    pub(crate) fn look(&self, skill: &Skill, session: Session<'_>, now: Instant) -> Option<Refused> {
        let rules = self.defaults.for_skill(skill);
        let has_own = rules.session.is_on() && !session.id.is_empty();
        let own = has_own.then(|| self.sessions.retry_after(&session.key(&skill.id), now)).flatten();
        if let Some(retry_after) = own {
            return Some(Refused { retry_after, of_session: true });
        }
        let of_all = rules.skill.is_on().then(|| self.skills.retry_after(&skill.id, now)).flatten();
        of_all.map(|retry_after| Refused { retry_after, of_session: false })
    }

    /// The circuits of one skill or of all, of one session or of all, and the skills' own; sorted by skill and session. Empty
    /// names match all.
    pub(crate) fn list(&self, skill_id: &str, session_id: &str, now: Instant) -> Vec<Change> {
        let of_sessions = self.sessions.list(now, |key| matches(key, skill_id, session_id));
        let of_skills = self.skills.list(now, |id| skill_id.is_empty() || id == skill_id);
        let of_skills = of_skills.into_iter().map(|(id, listed)| (of_skill(&id), listed));
        let mut all: Vec<_> = of_sessions.into_iter().chain(of_skills).map(|(key, it)| Change::of(&key, it)).collect();
        all.sort_by(|one, other| one.sort_key().cmp(&other.sort_key()));
        all
    }

    /// The skills whose own circuit is not closed.
    pub(crate) fn not_closed(&self) -> Vec<(String, CircuitState)> {
        self.skills.not_closed()
    }

    /// How many circuits of sessions are half-open, and how many are open.
    pub(crate) fn of_sessions(&self) -> [usize; 2] {
        self.sessions.count([CircuitState::HalfOpen, CircuitState::Open])
    }

    /// Closes circuits on an operator's behalf: of one skill or of all; of one session, or of all and the skills' own. Returns
    /// how many were not closed.
    pub(crate) fn reset(&self, skill_id: &str, session_id: &str) -> usize {
        let closed = |key: &str| self.publish(key, CircuitState::Closed, Duration::ZERO);
        let of_sessions = self.sessions.reset(|key| matches(key, skill_id, session_id), closed);
        if !session_id.is_empty() {
            return of_sessions;
        }
        of_sessions + self.skills.reset(|id| skill_id.is_empty() || id == skill_id, |id| closed(&of_skill(id)))
    }

    /// Each change from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    /// Makes a change known. Called while the circuit is locked, so that changes become known in order.
    fn publish(&self, key: &str, state: CircuitState, recovery: Duration) {
        let retry_after = if state == CircuitState::Open { recovery } else { Duration::ZERO };
        let change = Change::of(key, Listed { state, failures: 0, retry_after });
        self.observer.circuit_changed(&change.circuit);
        // Nobody may be watching.
        let _ = self.changes.send(change);
    }
}

impl Session<'_> {
    fn key(&self, skill_id: &str) -> String {
        key::join([self.principal.name(), self.id, skill_id])
    }
}

impl Change {
    fn of(key: &str, listed: Listed) -> Self {
        let [principal, session_id, skill_id] = key::split(key).map(str::to_owned);
        let retry_after_ms = millis(listed.retry_after);
        let (state, failures) = (listed.state.into(), listed.failures);
        Self { principal, circuit: Circuit { skill_id, session_id, state, failures, retry_after_ms } }
    }

    fn sort_key(&self) -> (&str, &str, &str) {
        (&self.circuit.skill_id, &self.circuit.session_id, &self.principal)
    }
}

/// The key of a skill's own circuit.
fn of_skill(skill_id: &str) -> String {
    key::join(["", "", skill_id])
}

/// Whether a session circuit is of this skill and session. Empty names match all.
fn matches(key: &str, skill_id: &str, session_id: &str) -> bool {
    let [_, its_session, its_skill] = key::split(key);
    (skill_id.is_empty() || its_skill == skill_id) && (session_id.is_empty() || its_session == session_id)
}

/// Whole milliseconds, rounded up, so that whoever waits them is not too early.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}
