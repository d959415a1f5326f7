//! Admission control: limits the concurrent calls of the gateway, of each skill and of each session. A full gateway
//! sheds load: it refuses at once and never queues.
//!
//! Permits and bytes of arguments are shared fairly among principals, and a principal's part among its sessions:
//! see [`openskill_identity::shares`]. Without keys, only sessions share them. The workers' limit is adaptive and
//! may fall below the calls in flight. A principal or session with less than half of an even share is still
//! admitted, if the gateway itself has a permit. A principal's calls without a session count as one session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ahash::HashMap;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};

use super::in_flight::ListedCall;
use crate::call::principal::{Principal, REVOKED};
use crate::identity::usage::{ActiveUsage, Limit, LimitExceeded};
use crate::state::key;
use crate::state::limits::SharedLimit;
use crate::state::striped::Striped;
use openskill_identity::shares::{is_fair, reachable};

/// The maximum total size of the arguments of admitted calls, in bytes.
const MAX_BYTES: usize = SharedLimit::Arguments.bound();

/// Grants permits, within fair shares.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The number of calls in flight.
    calls: AtomicUsize,
    /// The total size of their arguments.
    bytes: AtomicUsize,
    limit: usize,
    limit_of_skill: usize,
    /// Maximum number of calls in flight by principal, for identified principals.
    principals: CallCounts,
    sessions: CallCounts,
    skills: CallCounts,
    /// Maximum number of calls in flight by session and skill.
    pairs: CallCounts,
    /// Maximum number of calls in flight by principal and skill.
    principal_skills: CallCounts,
}

/// Allows one call to be in flight. Dropping it releases the permit.
#[derive(Debug)]
pub(crate) struct Permit {
    _slot: Option<AdmissionSlot>,
    /// Counts the call towards its principal's policy limits.
    _principal_usage: Option<ActiveUsage>,
    /// None if it is not a call.
    _listed: Option<ListedCall>,
}

/// A call's share of the gateway's limits, released on drop.
#[derive(Debug)]
struct AdmissionSlot {
    admission: Arc<Admission>,
    claim: Claim,
}

/// The keys and the size that a call is counted under.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Principal, session and skill, as one key.
    pair: String,
    /// Principal and skill. None for the anonymous principal.
    principal_skill: Option<String>,
    /// The length of the principal's name within `pair`.
    principal_bytes: usize,
    /// The length of principal and session within `pair`.
    session_bytes: usize,
    /// The size of the arguments, in bytes.
    size: usize,
}

/// How much of a limit is in use.
struct Use {
    limit: usize,
    /// By all other calls.
    used: usize,
    /// By this call.
    more: usize,
    /// By all calls of the principal, including this one. None for the anonymous principal.
    of_principal: Option<usize>,
}

/// The limit that refused a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    Gateway,
    Principal,
    Session,
    Skill,
}

/// Why a call is refused a permit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AdmissionRefusal {
    /// The credential of its principal was revoked or has expired.
    Revoked,
    /// An operator is draining the gateway.
    Drained,
    Full(Bound),
    /// The principal is at a limit of its policy.
    Principal(LimitExceeded),
}

impl Permit {
    /// Makes the permit hold the call's `usage` of its principal's limits.
    pub(crate) fn with_usage(mut self, usage: Option<ActiveUsage>) -> Self {
        self._principal_usage = usage;
        self
    }

    /// Makes the permit keep its call in the list of calls in flight.
    pub(crate) fn with_listed(self, call: ListedCall) -> Self {
        Self { _listed: Some(call), ..self }
    }

    /// Turns this into the permit of an agent's call, which occupies no slot: the calls that the agent makes need
    /// their own permits. It still counts towards its principal's limits.
    pub(crate) fn without_slot(self) -> Self {
        Self { _slot: None, ..self }
    }
}

impl Bound {
    /// The name in metrics.
    pub(crate) fn name(self) -> &'static str {
        self.row().0
    }

    /// Returns the name in metrics, and what a refused caller reads.
    fn row(self) -> (&'static str, &'static str) {
        match self {
            Self::Gateway => ("gateway", "the gateway is at its concurrency limit"),
            Self::Principal => {
                ("principal", "this key's principal holds its fair share of permits: wait until its calls end")
            }
            Self::Session => ("session", "this session holds its fair share of permits: wait until its calls end"),
            Self::Skill => ("skill", "this skill is at its concurrency limit"),
        }
    }
}

impl AdmissionRefusal {
    /// Whether the same call may be admitted after other calls end.
    pub(crate) fn may_pass(self) -> bool {
        !matches!(self, Self::Revoked | Self::Drained)
    }
}

impl From<AdmissionRefusal> for SkillError {
    fn from(refusal: AdmissionRefusal) -> Self {
        match refusal {
            AdmissionRefusal::Revoked => Self::new(ErrorCode::Unauthenticated, REVOKED),
            AdmissionRefusal::Drained => {
                let message = "the gateway is drained: send the call to another gateway";
                Self::unavailable(message).with_retry_after_ms(1000).with_blame(Blame::Gateway)
            }
            AdmissionRefusal::Full(bound) => Self::overloaded(bound.row().1),
            AdmissionRefusal::Principal(exceeded) => exceeded.into(),
        }
    }
}

impl From<LimitExceeded> for SkillError {
    fn from(LimitExceeded { limit, retry_after }: LimitExceeded) -> Self {
        let what = match limit {
            Limit::Rate => "this key's principal has reached its rate limit",
            Limit::InFlight => "this key's principal has reached its concurrency limit: wait until its calls end",
            Limit::Bytes => "this key's principal has reached its limit on bytes of arguments in flight",
            Limit::Sessions => "this key's principal has reached its session limit: reuse one of its sessions",
        };
        let error = Self::new(ErrorCode::RateLimited, what);
        match retry_after {
            // Rounded up: a caller that retries a moment too early is refused again.
            Some(wait) => {
                error.with_retry_after_ms(u64::try_from(wait.as_micros().div_ceil(1000)).unwrap_or(u64::MAX).max(1))
            }
            None => Self { retryable: false, ..error },
        }
    }
}

impl Claim {
    /// Counts a call of `skill` with arguments of `size` bytes.
    pub(crate) fn new(principal: &Principal, session: &str, skill: &str, size: usize) -> Self {
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
        let (calls, bytes, principals, sessions) = Default::default();
        let (skills, pairs, principal_skills) = Default::default();
        Arc::new(Self { calls, bytes, limit, limit_of_skill, principals, sessions, skills, pairs, principal_skills })
    }

    /// Admits a call, or returns the limit that it hit. `workers` is the workers' concurrency limit, if any.
    pub(crate) fn grant(self: &Arc<Self>, claim: Claim, workers: Option<usize>) -> Result<Permit, Bound> {
        let limit = self.limit.min(workers.unwrap_or(self.limit));
        let size = claim.size;
        let in_flight = self.calls.fetch_add(1, Ordering::AcqRel);
        let bytes = self.bytes.fetch_add(size, Ordering::AcqRel);
        let of_session = self.sessions.add(claim.session(), size);
        let of_skill = self.skills.add(claim.skill(), size);
        let of_pair = self.pairs.add(&claim.pair, size);
        let of_principal = claim
            .principal_skill
            .as_ref()
            .map(|pair| (self.principals.add(claim.principal(), size), self.principal_skills.add(pair, size).calls));
        // From here on, dropping the slot undoes the counts.
        let slot = AdmissionSlot { admission: Arc::clone(self), claim };
        let permit = Permit { _slot: Some(slot), _principal_usage: None, _listed: None };
        if in_flight >= self.limit || bytes.saturating_add(size) > MAX_BYTES {
            return Err(Bound::Gateway);
        }
        let (principal, in_skill) = of_principal.unzip();
        let calls = Use { limit, used: in_flight, more: 1, of_principal: principal.map(|it| it.calls) };
        let bytes = Use { limit: MAX_BYTES, used: bytes, more: size, of_principal: principal.map(|it| it.bytes) };
        let skill = Use { limit: self.limit_of_skill, used: of_skill.calls - 1, more: 1, of_principal: in_skill };
        // The first call of a principal passes regardless of the others: workers assign their slots by share.
        let full = |bound: Bound| if in_flight >= limit { Bound::Gateway } else { bound };
        self.check(&calls, of_session.calls, true).map_err(full)?;
        self.check(&bytes, of_session.bytes, false)?;
        if of_skill.calls > self.limit_of_skill {
            return Err(Bound::Skill);
        }
        self.check(&skill, of_pair.calls, false)?;
        Ok(permit)
    }

    /// Refuses a call that would exceed its fair share of a limit. With `passes_first`, the first call of each
    /// principal and session is admitted regardless.
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

    /// The number of calls that have a permit.
    pub(crate) fn in_flight(&self) -> usize {
        self.calls.load(Ordering::Acquire)
    }
}

impl Drop for AdmissionSlot {
    fn drop(&mut self) {
        let Self { admission, claim } = self;
        admission.sessions.remove(claim.session(), claim.size);
        admission.skills.remove(claim.skill(), claim.size);
        admission.pairs.remove(&claim.pair, claim.size);
        if let Some(pair) = &claim.principal_skill {
            admission.principals.remove(claim.principal(), claim.size);
            admission.principal_skills.remove(pair, claim.size);
        }
        admission.bytes.fetch_sub(claim.size, Ordering::AcqRel);
        admission.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The calls in flight by name. A name without calls has no entry.
#[derive(Debug)]
struct CallCounts {
    stripes: Striped<HashMap<String, Count>>,
    names: AtomicUsize,
}

/// The calls in flight of one name.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    calls: usize,
    bytes: usize,
}

impl Default for CallCounts {
    fn default() -> Self {
        Self { stripes: Striped::new(HashMap::default), names: AtomicUsize::new(0) }
    }
}

impl CallCounts {
    /// Adds a call, and returns the new count of the name.
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

    /// The number of names with calls in flight.
    fn names(&self) -> usize {
        self.names.load(Ordering::Relaxed)
    }

    /// Removes a call that was added with the same `name` and `bytes`.
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
        Claim::new(&Principal::anonymous(), session, skill, size)
    }

    fn fill_as(admission: &Arc<Admission>, principal: &str, session: impl Fn(usize) -> String) -> Vec<Permit> {
        let (principal, mut number) = (Principal::from_name(principal), 0);
        let next = || {
            number += 1;
            admission.grant(Claim::new(&principal, &session(number), "skill", 1), None).ok()
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
        let of_agent = admission.grant(claim("agent", "", 0), None).unwrap().without_slot();
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
