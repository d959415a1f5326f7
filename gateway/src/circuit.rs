//! Circuits: a skill that keeps failing is left alone for a while, and tried again with one call.
//!
//! A session has a circuit for each skill it calls: a few failures in a row open it. A skill has one for all its callers:
//! it opens when too large a share of its calls fails. A call needs both. Only failures that are the skill's own count;
//! the caller's mistakes, cancellations, and what workers and the gateway do wrong change nothing.
//!
//! - [`breaker`]: the state machine; pure, it is told the time
//! - [`count`]: what makes a closed circuit open: failures in a row, or a rate within a window; pure
//! - [`store`]: circuits by key, bounded however many sessions come
//! - [`rules`]: thresholds and times, of the gateway and of a manifest
//! - [`layer`]: the tower layer that asks and reports

use std::time::{Duration, Instant};

use openskill_proto::limits::MAX_SKILLS;
use openskill_proto::v1::{Circuit, CircuitState, Skill};
use tokio::sync::broadcast;

pub(crate) mod breaker;
pub(crate) mod count;
pub(crate) mod layer;
pub(crate) mod rules;
mod store;

#[cfg(test)]
mod model;

use breaker::{Pass, Verdict};
use count::{Consecutive, Window};
pub(crate) use rules::Rules;
use store::{Listed, Store};

use crate::metrics::Metrics;
use crate::pair;

/// How many circuits of sessions are remembered for sure. Past that, those that nobody asked for the longest are forgotten.
const SESSION_CIRCUITS: usize = 32 * 1024;

/// Changes that a slow watcher may be behind before it has to look at the whole again.
const CHANGES: usize = 256;

/// All circuits of a gateway.
#[derive(Debug)]
pub(crate) struct Circuits {
    sessions: Store<Consecutive>,
    skills: Store<Window>,
    defaults: Rules,
    changes: broadcast::Sender<Circuit>,
}

/// Leave to make one call. Has to be given back, with what became of the call.
#[derive(Debug)]
pub(crate) struct Passes {
    session: Option<(String, Pass)>,
    skill: Option<Pass>,
    rules: Rules,
}

/// A call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    /// Until a call may try again.
    pub(crate) retry_after: Duration,
    /// It is this session's circuit, and not the skill's.
    pub(crate) of_session: bool,
}

impl Circuits {
    pub(crate) fn new(defaults: Rules) -> Self {
        Self {
            sessions: Store::new(SESSION_CIRCUITS),
            skills: Store::new(2 * MAX_SKILLS),
            defaults,
            changes: broadcast::Sender::new(CHANGES),
        }
    }

    /// Asks for leave to call a skill.
    pub(crate) fn admit(
        &self,
        skill: &Skill,
        session: &str,
        now: Instant,
        metrics: &Metrics,
    ) -> Result<Passes, Refused> {
        let rules = self.defaults.for_skill(skill);
        let mut passes = Passes { session: None, skill: None, rules };
        if rules.session.is_on() && !session.is_empty() {
            let key = pair::join(session, &skill.id);
            let tell = |state| self.tell(&skill.id, session, state, Duration::ZERO, metrics);
            let pass = self.sessions.admit(&key, now, tell);
            let pass = pass.map_err(|retry_after| Refused { retry_after, of_session: true })?;
            passes.session = Some((key, pass));
        }
        if rules.skill.is_on() {
            let tell = |state| self.tell(&skill.id, "", state, Duration::ZERO, metrics);
            match self.skills.admit(&skill.id, now, tell) {
                Ok(pass) => passes.skill = Some(pass),
                Err(retry_after) => {
                    // The session's probe was not made.
                    self.report(&skill.id, passes, Verdict::Ignored, now, metrics);
                    return Err(Refused { retry_after, of_session: false });
                }
            }
        }
        Ok(passes)
    }

    /// Gives the passes back.
    pub(crate) fn report(&self, skill_id: &str, passes: Passes, verdict: Verdict, now: Instant, metrics: &Metrics) {
        let Passes { session, skill, rules } = passes;
        if let Some((key, pass)) = session {
            let tell = |state| self.tell(skill_id, pair::split(&key).0, state, rules.session.recovery, metrics);
            self.sessions.report(&key, pass, verdict, &rules.session, now, tell);
        }
        if let Some(pass) = skill {
            let tell = |state| self.tell(skill_id, "", state, rules.skill.recovery, metrics);
            self.skills.report(skill_id, pass, verdict, &rules.skill, now, tell);
        }
    }

    /// Whether a call would be refused now. Asking changes nothing.
    pub(crate) fn look(&self, skill: &Skill, session: &str, now: Instant) -> Option<Refused> {
        let rules = self.defaults.for_skill(skill);
        let has_own = rules.session.is_on() && !session.is_empty();
        let own = has_own.then(|| self.sessions.retry_after(&pair::join(session, &skill.id), now)).flatten();
        if let Some(retry_after) = own {
            return Some(Refused { retry_after, of_session: true });
        }
        let of_all = rules.skill.is_on().then(|| self.skills.retry_after(&skill.id, now)).flatten();
        of_all.map(|retry_after| Refused { retry_after, of_session: false })
    }

    /// The circuits of a skill or of all, of a session or of all, and the skills' own; sorted by skill and session. Empty
    /// names mean all.
    pub(crate) fn list(&self, skill_id: &str, session: &str, now: Instant) -> Vec<Circuit> {
        let of_skill = |id: &str| skill_id.is_empty() || id == skill_id;
        let sessions = self.sessions.list(now, |key| is_of(key, skill_id, session)).into_iter().map(|(key, listed)| {
            let (session, skill) = pair::split(&key);
            to_wire(skill, session, listed)
        });
        let skills = self.skills.list(now, of_skill).into_iter().map(|(skill, listed)| to_wire(&skill, "", listed));
        let mut all: Vec<_> = sessions.chain(skills).collect();
        all.sort_by(|one, other| (&one.skill_id, &one.session_id).cmp(&(&other.skill_id, &other.session_id)));
        all
    }

    /// Closes circuits by hand: of one skill or of all; of one session, or of all and the skills' own. Says how many were
    /// not closed.
    pub(crate) fn reset(&self, skill_id: &str, session: &str, metrics: &Metrics) -> usize {
        let tell = |skill: &str, session: &str| {
            self.tell(skill, session, CircuitState::Closed, Duration::ZERO, metrics);
        };
        let of_sessions = self.sessions.reset(
            |key| is_of(key, skill_id, session),
            |key| {
                let (session, skill) = pair::split(key);
                tell(skill, session);
            },
        );
        if !session.is_empty() {
            return of_sessions;
        }
        of_sessions + self.skills.reset(|id| skill_id.is_empty() || id == skill_id, |skill| tell(skill, ""))
    }

    /// Each change from now on.
    pub(crate) fn changes(&self) -> broadcast::Receiver<Circuit> {
        self.changes.subscribe()
    }

    /// A change of state: a metric, a log line, an event. Called while the circuit is locked, so that changes are told in
    /// their order.
    fn tell(&self, skill_id: &str, session_id: &str, state: CircuitState, recovery: Duration, metrics: &Metrics) {
        metrics.circuit_changed(!session_id.is_empty(), state);
        let retry_after_ms = if state == CircuitState::Open { millis(recovery) } else { 0 };
        tracing::info!(
            target: "openskill::circuit",
            skill_id,
            session_id,
            state = state.as_str_name().trim_start_matches("CIRCUIT_STATE_"),
            retry_after_ms,
            "circuit changed"
        );
        let circuit = Circuit {
            skill_id: skill_id.to_owned(),
            session_id: session_id.to_owned(),
            state: state.into(),
            failures: 0,
            retry_after_ms,
        };
        // Nobody may be watching.
        let _ = self.changes.send(circuit);
    }
}

/// Whole milliseconds, rounded up: who waits for them is not too early.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// Whether a key belongs to a skill and a session; empty names mean any.
fn is_of(key: &str, skill_id: &str, session: &str) -> bool {
    let (its_session, its_skill) = pair::split(key);
    (skill_id.is_empty() || its_skill == skill_id) && (session.is_empty() || its_session == session)
}

fn to_wire(skill_id: &str, session_id: &str, listed: Listed) -> Circuit {
    Circuit {
        skill_id: skill_id.to_owned(),
        session_id: session_id.to_owned(),
        state: listed.state.into(),
        failures: listed.failures,
        retry_after_ms: millis(listed.retry_after),
    }
}
