//! Admission: how many calls the gateway has at once, in all, for one skill, for one session. A full gateway sheds load: it
//! answers at once and never queues.
//!
//! The permits, and the bytes of arguments, are shared fairly among principals, and what a principal can get among its sessions:
//! see [`openskill_identity::shares`]. Without keys there are only sessions. The workers' limit changes, and may fall below what is
//! in flight; who holds less than half of an even share is admitted all the same, as long as the gateway itself has a permit. A
//! principal's calls without a session count as one session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ahash::HashMap;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use crate::call::principal::{Principal, REVOKED};
use crate::call::request::Call;
use crate::identity::usage::{Exceeded, Held, Limit};
use crate::state::key;
use crate::state::limits::SharedLimit;
use crate::state::striped::Striped;
use openskill_identity::shares::{is_fair, reachable};

/// The arguments of all admitted calls, in bytes.
const MAX_BYTES: usize = SharedLimit::Arguments.bound();

/// Grants permits.
#[derive(Debug)]
pub(crate) struct Admission {
    all: Totals,
    limit: usize,
    limit_of_skill: usize,
    /// Those that keys identify.
    principals: Tally,
    sessions: Tally,
    skills: Tally,
    /// By session and skill.
    pairs: Tally,
    /// By principal and skill.
    principal_skills: Tally,
}

/// Calls, and the bytes of their arguments.
#[derive(Debug, Default)]
struct Totals {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

/// The right of one call to be in flight. Dropping it gives the right back.
#[derive(Debug)]
pub(crate) struct Permit {
    _place: Option<Place>,
    /// What the call uses of its principal's limits.
    _of_principal: Option<Held>,
}

/// What a call has of the gateway's limits.
#[derive(Debug)]
struct Place {
    admission: Arc<Admission>,
    claim: Claim,
}

/// What a call counts towards.
#[derive(Debug)]
struct Claim {
    /// Principal, session and skill.
    pair: String,
    /// Principal and skill. None for the anonymous principal.
    principal_skill: Option<String>,
    /// The length of the principal in `pair`.
    principal_bytes: usize,
    /// The length of principal and session in it.
    session_bytes: usize,
    /// The size of the arguments.
    size: usize,
}

/// What is used of a limit.
struct Use {
    limit: usize,
    /// By all, without a call.
    used: usize,
    /// By the call.
    more: usize,
    /// By the call's principal, with the call. None for the anonymous principal.
    of_principal: Option<usize>,
}

/// The limit that a refused call hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Gateway,
    Principal,
    Session,
    Skill,
}

/// Why a call gets no permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The credential of its principal is no longer valid.
    Revoked,
    /// An operator drained the gateway.
    Drained,
    Full(Bound),
    /// The principal is at a limit of its policy.
    Principal(Exceeded),
}

impl Permit {
    /// The same, with what the call uses of its principal's limits.
    pub(crate) fn with(mut self, held: Option<Held>) -> Self {
        self._of_principal = held;
        self
    }

    /// The right of an agent's call: it occupies no worker, and the calls that it makes need permits of their own. It still
    /// counts towards its principal's limits.
    pub(crate) fn of_agent(self) -> Self {
        Self { _place: None, ..self }
    }
}

impl Bound {
    /// The name in metrics.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Principal => "principal",
            Self::Session => "session",
            Self::Skill => "skill",
        }
    }
}

impl Refusal {
    /// Whether the same call may be admitted once others have ended.
    pub(crate) fn may_pass(self) -> bool {
        !matches!(self, Self::Revoked | Self::Drained)
    }
}

impl From<Refusal> for SkillError {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Revoked => Self::new(ErrorCode::Unauthenticated, REVOKED),
            Refusal::Drained => {
                let message = "the gateway is drained: send the call to another gateway";
                Self::unavailable(message).with_retry_after_ms(1000).with_blame(Blame::Gateway)
            }
            Refusal::Full(Bound::Gateway) => Self::overloaded("the gateway is at its concurrency limit"),
            Refusal::Full(Bound::Principal) => {
                Self::overloaded("this key's principal holds its fair share of permits: wait until its calls end")
            }
            Refusal::Full(Bound::Session) => {
                Self::overloaded("this session holds its fair share of permits: wait until its calls end")
            }
            Refusal::Full(Bound::Skill) => Self::overloaded("this skill is at its concurrency limit"),
            Refusal::Principal(exceeded) => exceeded.into(),
        }
    }
}

impl From<Exceeded> for SkillError {
    fn from(Exceeded { limit, retry_after }: Exceeded) -> Self {
        let what = match limit {
            Limit::Rate => "the rate limit of this key's principal is reached",
            Limit::InFlight => "the concurrency limit of this key's principal is reached: wait until its calls end",
            Limit::Bytes => "the limit on bytes of arguments in flight of this key's principal is reached",
            Limit::Sessions => "the session limit of this key's principal is reached: reuse one of its sessions",
        };
        let error = Self::new(ErrorCode::RateLimited, what);
        match retry_after {
            // Rounded up: who asks a moment too early is refused again.
            Some(wait) => {
                error.with_retry_after_ms(u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX).max(1))
            }
            None => Self { retryable: false, ..error },
        }
    }
}

impl Claim {
    fn of((principal, session): (&Principal, &str), skill: &str, size: usize) -> Self {
        let principal = principal.name();
        let pair = key::join([principal, session, skill]);
        let principal_skill = (!principal.is_empty()).then(|| key::join([principal, skill]));
        let (principal_bytes, session_bytes) = (principal.len(), principal.len() + 1 + session.len());
        Self { pair, principal_skill, principal_bytes, session_bytes, size }
    }

    fn principal(&self) -> &str {
        &self.pair[..self.principal_bytes]
    }

    fn session(&self) -> &str {
        &self.pair[..self.session_bytes]
    }

    fn skill(&self) -> &str {
        &self.pair[self.session_bytes + 1..]
    }
}

impl Admission {
    pub(crate) fn new(limit: usize, limit_of_skill: usize) -> Arc<Self> {
        Arc::new(Self {
            all: Totals::default(),
            limit,
            limit_of_skill,
            principals: Tally::new(),
            sessions: Tally::new(),
            skills: Tally::new(),
            pairs: Tally::new(),
            principal_skills: Tally::new(),
        })
    }

    /// Admits a call, or names the limit it hit. `skill`: the one that the call counts towards. `workers`: the workers'
    /// concurrency limit, if there is one.
    pub(crate) fn admit(self: &Arc<Self>, call: &Call, skill: &str, workers: Option<usize>) -> Result<Permit, Bound> {
        self.grant(Claim::of((&call.principal, &call.session_id), skill, call.input.size()), workers)
    }

    /// Admits a question to a worker of so many bytes, as if it were a call of its `owner`: a skill, or an MCP server.
    pub(crate) fn admit_consult(
        self: &Arc<Self>,
        of: (&Principal, &str),
        owner: &str,
        size: usize,
        workers: Option<usize>,
    ) -> Result<Permit, Bound> {
        self.grant(Claim::of(of, owner, size), workers)
    }

    fn grant(self: &Arc<Self>, claim: Claim, workers: Option<usize>) -> Result<Permit, Bound> {
        let limit = self.limit.min(workers.unwrap_or(self.limit));
        let size = claim.size;
        let in_flight = self.all.calls.fetch_add(1, Ordering::AcqRel);
        let bytes = self.all.bytes.fetch_add(size, Ordering::AcqRel);
        let of_session = self.sessions.add(claim.session(), size);
        let of_skill = self.skills.add(claim.skill(), size);
        let of_pair = self.pairs.add(&claim.pair, size);
        let of_principal = claim
            .principal_skill
            .as_ref()
            .map(|pair| (self.principals.add(claim.principal(), size), self.principal_skills.add(pair, size).calls));
        // From here on its drop takes back what was counted.
        let place = Place { admission: Arc::clone(self), claim };
        let permit = Permit { _place: Some(place), _of_principal: None };
        if in_flight >= self.limit || bytes.saturating_add(size) > MAX_BYTES {
            return Err(Bound::Gateway);
        }
        let (principal, in_skill) = of_principal.unzip();
        let calls = Use { limit, used: in_flight, more: 1, of_principal: principal.map(|it| it.calls) };
        let bytes = Use { limit: MAX_BYTES, used: bytes, more: size, of_principal: principal.map(|it| it.bytes) };
        let skill = Use { limit: self.limit_of_skill, used: of_skill.calls - 1, more: 1, of_principal: in_skill };
        // A first call passes whatever the others have: a worker grants its slots by share.
        let full = |bound: Bound| if in_flight >= limit { Bound::Gateway } else { bound };
        self.check(&calls, of_session.calls, true).map_err(full)?;
        self.check(&bytes, of_session.bytes, false)?;
        if of_skill.calls > self.limit_of_skill {
            return Err(Bound::Skill);
        }
        self.check(&skill, of_pair.calls, false)?;
        Ok(permit)
    }

    /// Whether a limit is shared fairly if the principal and the session have what they have with this call. `passes_first`: the
    /// first call of each passes.
    fn check(&self, of: &Use, of_session: usize, passes_first: bool) -> Result<(), Bound> {
        let is_first = |mine: usize| passes_first && mine == of.more;
        let (mut used, mut limit) = (of.used, of.limit);
        if let Some(mine) = of.of_principal {
            let principals = self.principals.names();
            if !is_first(mine) && !is_fair(mine, used, limit, principals) {
                return Err(Bound::Principal);
            }
            let before = mine - of.more;
            (used, limit) = (before, reachable(before, used, limit, principals));
        }
        let is_fair = is_first(of_session) || is_fair(of_session, used, limit, self.sessions.names());
        is_fair.then_some(()).ok_or(Bound::Session)
    }

    /// Calls that hold a permit.
    pub(crate) fn in_flight(&self) -> usize {
        self.all.calls.load(Ordering::Acquire)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Self { admission, claim } = self;
        admission.sessions.remove(claim.session(), claim.size);
        admission.skills.remove(claim.skill(), claim.size);
        admission.pairs.remove(&claim.pair, claim.size);
        if let Some(pair) = &claim.principal_skill {
            admission.principals.remove(claim.principal(), claim.size);
            admission.principal_skills.remove(pair, claim.size);
        }
        admission.all.bytes.fetch_sub(claim.size, Ordering::AcqRel);
        admission.all.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The calls in flight by name. A name without calls takes no memory.
#[derive(Debug)]
struct Tally {
    stripes: Striped<HashMap<String, Count>>,
    names: AtomicUsize,
}

/// What one name has in flight.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    calls: usize,
    bytes: usize,
}

impl Tally {
    fn new() -> Self {
        Self { stripes: Striped::new(HashMap::default), names: AtomicUsize::new(0) }
    }

    /// Counts one more call, and returns what the name has with it.
    fn add(&self, name: &str, bytes: usize) -> Count {
        let mut counts = self.stripes.lock(name);
        if let Some(count) = counts.get_mut(name) {
            *count = Count { calls: count.calls + 1, bytes: count.bytes + bytes };
            return *count;
        }
        let count = Count { calls: 1, bytes };
        counts.insert(name.to_owned(), count);
        self.names.fetch_add(1, Ordering::Relaxed);
        count
    }

    /// How many names have calls.
    fn names(&self) -> usize {
        self.names.load(Ordering::Relaxed)
    }

    /// Counts one call less.
    fn remove(&self, name: &str, bytes: usize) {
        let mut counts = self.stripes.lock(name);
        match counts.get_mut(name) {
            Some(count) if count.calls > 1 => *count = Count { calls: count.calls - 1, bytes: count.bytes - bytes },
            _ => {
                counts.remove(name);
                self.names.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(skill: &str, session: &str, size: usize) -> Claim {
        Claim::of((&Principal::anonymous(), session), skill, size)
    }

    fn fill_as(admission: &Arc<Admission>, principal: &str, session: impl Fn(usize) -> String) -> Vec<Permit> {
        let (principal, mut number) = (Principal::of(principal), 0);
        let next = || {
            number += 1;
            admission.grant(Claim::of((&principal, &session(number)), "skill", 1), None).ok()
        };
        std::iter::from_fn(next).collect()
    }

    fn fill(admission: &Arc<Admission>, session: &str, workers: Option<usize>) -> Vec<Permit> {
        std::iter::from_fn(|| admission.grant(claim("skill", session, 0), workers).ok()).collect()
    }

    #[test]
    fn the_last_permit_is_granted_once_and_returned() {
        let admission = Admission::new(1, 10);
        let first = admission.grant(claim("skill", "", 0), None);
        assert_eq!(admission.grant(claim("skill", "", 0), None).unwrap_err(), Bound::Gateway);
        drop(first);
        assert!(admission.grant(claim("skill", "", 0), None).is_ok());
        assert_eq!(admission.in_flight(), 0);
    }

    #[test]
    fn an_agents_call_leaves_its_place_to_the_calls_that_it_makes() {
        let admission = Admission::new(1, 10);
        let of_agent = admission.grant(claim("agent", "", 0), None).unwrap().of_agent();
        assert_eq!(admission.in_flight(), 0);
        assert!(admission.grant(claim("skill", "", 0), None).is_ok());
        drop(of_agent);
        assert_eq!(admission.in_flight(), 0);
    }

    #[test]
    fn a_session_that_floods_leaves_permits_to_others() {
        let admission = Admission::new(100, 1000);
        let flood = fill(&admission, "flood", None);
        assert!((79..=81).contains(&flood.len()), "{}", flood.len());
        assert!(fill(&admission, "modest", None).len() >= 15);
    }

    #[test]
    fn sessions_that_flood_get_even_shares() {
        let admission = Admission::new(100, 1000);
        let mut held: [Vec<Permit>; 4] = Default::default();
        for _ in 0..100 {
            for (number, mine) in held.iter_mut().enumerate() {
                mine.extend(admission.grant(claim("skill", &number.to_string(), 0), None));
            }
        }
        let counts = held.map(|mine| mine.len());
        assert!(counts.iter().all(|count| (22..=25).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_workers_limit_applies_too() {
        let admission = Admission::new(100, 1000);
        assert_eq!(fill(&admission, "one", Some(10)).len(), 8);
    }

    #[test]
    fn a_modest_session_is_admitted_when_the_workers_limit_falls_below_the_calls_in_flight() {
        let admission = Admission::new(1000, 1000);
        let _flood = fill(&admission, "flood", Some(500));
        let modest = fill(&admission, "modest", Some(100));
        assert_eq!(modest.len(), 25);
        assert_eq!(admission.grant(claim("skill", "flood", 0), Some(100)).unwrap_err(), Bound::Gateway);
    }

    #[test]
    fn large_arguments_count_by_their_bytes() {
        let admission = Admission::new(100, 100);
        let held = admission.grant(claim("skill", "", MAX_BYTES / 2), None);
        assert!(held.is_ok());
        assert_eq!(admission.grant(claim("skill", "other", MAX_BYTES), None).unwrap_err(), Bound::Gateway);
        drop(held);
        assert!(admission.grant(claim("skill", "other", MAX_BYTES / 2), None).is_ok());
    }

    #[test]
    fn a_skill_has_its_own_limit() {
        let admission = Admission::new(100, 3);
        let _held = fill(&admission, "one", None);
        assert_eq!(admission.grant(claim("skill", "two", 0), None).unwrap_err(), Bound::Skill);
        assert!(admission.grant(claim("other", "two", 0), None).is_ok());
    }

    #[test]
    fn a_session_cannot_take_a_whole_skill_or_all_bytes() {
        let admission = Admission::new(10_000, 100);
        let flood = fill(&admission, "flood", None);
        assert!((79..=81).contains(&flood.len()), "{}", flood.len());
        assert!(!fill(&admission, "modest", None).is_empty());
        let admission = Admission::new(10_000, 10_000);
        let large = || admission.grant(claim("skill", "flood", MAX_BYTES / 100), None).ok();
        let flood: Vec<_> = std::iter::from_fn(large).collect();
        assert!((79..=81).contains(&flood.len()), "{}", flood.len());
        assert!(admission.grant(claim("skill", "modest", MAX_BYTES / 100), None).is_ok());
    }

    #[test]
    fn a_principal_with_many_sessions_leaves_permits_and_skills_to_others() {
        for (limit, limit_of_skill) in [(100, 1000), (1000, 100)] {
            let admission = Admission::new(limit, limit_of_skill);
            let flood = fill_as(&admission, "greedy", |number| number.to_string());
            assert!((78..=81).contains(&flood.len()), "{}", flood.len());
            assert!(fill_as(&admission, "honest", |_| String::new()).len() >= 10);
        }
    }

    #[test]
    fn the_sessions_of_a_principal_share_what_it_can_get() {
        let admission = Admission::new(100, 1000);
        let flood = fill_as(&admission, "ada", |_| "one".to_owned());
        assert!((60..=66).contains(&flood.len()), "{}", flood.len());
        assert!(fill_as(&admission, "ada", |_| "two".to_owned()).len() >= 5);
    }

    #[test]
    fn names_without_calls_take_no_memory() {
        let admission = Admission::new(100, 100);
        for number in 0..1000 {
            drop(admission.grant(claim(&format!("skill-{number}"), &format!("session-{number}"), 1), None));
        }
        drop(fill_as(&admission, "ada", |number| number.to_string()));
        let Admission { principals, sessions, skills, pairs, principal_skills, .. } = &*admission;
        for tally in [principals, sessions, skills, pairs, principal_skills] {
            let kept: usize = tally.stripes.all().map(|stripe| stripe.len()).sum();
            assert_eq!((kept, tally.names()), (0, 0));
        }
    }
}
