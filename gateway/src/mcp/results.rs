//! Results that are too long to send to a client at once. Only the owner can read a result, for a limited time. The
//! total size is bounded.

use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_proto::trace::{hex, random_id};
use parking_lot::Mutex;

use super::owner::Owner;
use super::shares::ExpiringStore;
use crate::call::principal::GovernedSkill;
use crate::state::limits::SharedLimit;

/// How long a result is kept.
pub(crate) const LIFETIME: Duration = Duration::from_secs(15 * 60);

/// The maximum total size of kept results, in bytes. The oldest results of the principal that has the most are
/// evicted first.
const MAX_BYTES: usize = SharedLimit::LongResults.bound();

/// A result that is read in ranges.
#[derive(Debug)]
pub(crate) struct LongResult {
    id: String,
    owner: Owner,
    /// The skill that returned it.
    pub(crate) skill: GovernedSkill,
    pub(crate) media_type: &'static str,
    pub(crate) text: String,
}

/// All kept results.
#[derive(Debug, Default)]
pub(crate) struct Results(Mutex<ExpiringStore<Arc<LongResult>>>);

impl Results {
    /// Stores the text of a skill's result for its owner. Returns its id. None if it does not fit.
    pub(crate) fn keep(
        &self,
        owner: Owner,
        skill: GovernedSkill,
        media_type: &'static str,
        text: String,
        now: Instant,
    ) -> Option<String> {
        if text.len() > MAX_BYTES {
            return None;
        }
        let (id, principal, bytes) = (hex(&random_id::<16>()), owner.principal.as_str().into(), text.len());
        let result = LongResult { id: id.clone(), owner, skill, media_type, text };
        let mut kept = self.0.lock();
        kept.push(now, principal, bytes, Arc::new(result));
        kept.shrink(now, LIFETIME, MAX_BYTES);
        // The new text may be the one that was evicted.
        let is_kept = kept.values().any(|it| it.id == id);
        is_kept.then_some(id)
    }

    /// Returns a result of this owner. None if the id is unknown, expired, or belongs to another owner.
    pub(crate) fn get(&self, owner: &Owner, id: &str, now: Instant) -> Option<Arc<LongResult>> {
        let mut kept = self.0.lock();
        kept.shrink(now, LIFETIME, MAX_BYTES);
        kept.values().find(|it| it.id == id && it.owner == *owner).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(principal: &str, view: &str) -> Owner {
        Owner { principal: principal.to_owned(), view: view.to_owned() }
    }

    #[test]
    fn a_result_is_its_owners_alone_and_for_a_while() {
        let (results, now) = (Results::default(), Instant::now());
        let id =
            results.keep(at("ada", "notes"), GovernedSkill::default(), "text/plain", "long".to_owned(), now).unwrap();
        let get = |owner: &Owner, now: Instant| results.get(owner, &id, now).map(|it| it.text.clone());
        assert_eq!(get(&at("ada", "notes"), now).unwrap(), "long");
        assert!(get(&at("bob", "notes"), now).is_none() && results.get(&at("ada", "notes"), "x", now).is_none());
        assert!(get(&at("ada", ""), now).is_none(), "another view has other scopes");
        assert!(get(&at("ada", "notes"), now + LIFETIME).is_none());
    }

    #[test]
    fn the_oldest_make_room() {
        let (results, now) = (Results::default(), Instant::now());
        let keep =
            |bytes: usize| results.keep(at("", ""), GovernedSkill::default(), "text/plain", "x".repeat(bytes), now);
        let (first, second) = (keep(MAX_BYTES / 2).unwrap(), keep(MAX_BYTES / 2).unwrap());
        let third = keep(1).unwrap();
        let is_kept = |id: &str| results.get(&at("", ""), id, now).is_some();
        assert!(!is_kept(&first) && is_kept(&second) && is_kept(&third));
        assert!(keep(MAX_BYTES + 1).is_none() && is_kept(&third));
    }

    #[test]
    fn one_principal_pushes_out_its_own_results_and_nobody_elses_share() {
        let (results, now) = (Results::default(), Instant::now());
        let keep = |principal: &'static str, bytes: usize| {
            let id = results
                .keep(at(principal, ""), GovernedSkill::default(), "text/plain", "x".repeat(bytes), now)
                .unwrap();
            move |results: &Results| results.get(&at(principal, ""), &id, now).is_some()
        };
        let small = keep("ada", MAX_BYTES / 8);
        let floods: Vec<_> = (0..64).map(|_| keep("bob", MAX_BYTES / 8)).collect();
        assert!(small(&results), "the oldest of all, and not of whom has most");
        assert_eq!(floods.iter().filter(|it| it(&results)).count(), 7);
        // Another principal gets its share at the expense of the first one.
        let share = keep("cyd", MAX_BYTES / 4);
        assert!(share(&results) && small(&results) && floods.last().unwrap()(&results));
        let more = results.keep(at("cyd", ""), GovernedSkill::default(), "text/plain", "x".repeat(MAX_BYTES), now);
        assert!(more.is_none() && small(&results) && floods.last().unwrap()(&results));
    }
}
