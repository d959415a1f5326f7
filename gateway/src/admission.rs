//! How many calls the gateway has at once: in all, for one skill, for one session. Full means an answer at once, not a
//! wait.
//!
//! A session may hold four times as many places as are free. So one that floods leaves a fifth to the others, and several
//! that flood share the rest evenly (Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
//! Switches"). What workers may have changes, and may fall below what is inside; a session that holds less than half of an
//! even share is let in all the same, as long as the gateway itself has a place. Calls without a session are one session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ahash::HashMap;

use crate::pair;
use crate::segments::Segments;

/// How many places a session may hold for each that is free.
const SHARE: usize = 4;

/// The arguments of all calls that have a place, in bytes.
const MAX_BYTES: usize = 512 * 1024 * 1024;

/// The gateway's places.
#[derive(Debug)]
pub(crate) struct Admission {
    all: Counts,
    most: usize,
    most_of_skill: usize,
    sessions: Tally,
    skills: Tally,
    /// A session's calls of one skill.
    pairs: Tally,
}

/// Calls, and the bytes of their arguments.
#[derive(Debug, Default)]
struct Counts {
    calls: AtomicUsize,
    bytes: AtomicUsize,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    /// Session and skill.
    pair: String,
    size: usize,
}

/// Why there is no place for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Gateway,
    Session,
    Skill,
}

impl Full {
    /// All of them, in the order of their numbers.
    pub(crate) const NAMES: [&str; 3] = ["gateway", "session", "skill"];
}

impl Admission {
    pub(crate) fn new(most: usize, most_of_skill: usize) -> Arc<Self> {
        let (all, sessions, skills, pairs) = (Counts::default(), Tally::new(), Tally::new(), Tally::new());
        Arc::new(Self { all, most, most_of_skill, sessions, skills, pairs })
    }

    /// A place for a call whose arguments have `size` bytes. `workers` is how many calls the workers may have, if that is
    /// known.
    pub(crate) fn enter(
        self: &Arc<Self>,
        skill: &str,
        session: &str,
        size: usize,
        workers: Option<usize>,
    ) -> Result<Permit, Full> {
        let most = self.most.min(workers.unwrap_or(self.most));
        let inside = self.all.calls.fetch_add(1, Ordering::AcqRel);
        let bytes = self.all.bytes.fetch_add(size, Ordering::AcqRel);
        // From here on the permit's drop takes back what was counted.
        let of_session = self.sessions.add(session, size);
        let of_skill = self.skills.add(skill, size);
        let pair = pair::join(session, skill);
        let of_pair = self.pairs.add(&pair, size);
        let permit = Permit { admission: Arc::clone(self), pair, size };
        if inside >= self.most || bytes.saturating_add(size) > MAX_BYTES {
            return Err(Full::Gateway);
        }
        let sessions = self.sessions.names();
        let is_fair = |mine: usize, used: usize, most: usize| {
            2 * mine * sessions <= most || mine <= SHARE * most.saturating_sub(used)
        };
        match () {
            () if !is_fair(of_session.calls, inside, most) => {
                Err(if inside >= most { Full::Gateway } else { Full::Session })
            }
            () if !is_fair(of_session.bytes, bytes, MAX_BYTES) => Err(Full::Session),
            () if of_skill.calls > self.most_of_skill => Err(Full::Skill),
            () if !is_fair(of_pair.calls, of_skill.calls - 1, self.most_of_skill) => Err(Full::Session),
            () => Ok(permit),
        }
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.all.calls.load(Ordering::Acquire)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Self { admission, pair, size } = self;
        let (session, skill) = pair::split(pair);
        admission.sessions.take(session, *size);
        admission.skills.take(skill, *size);
        admission.pairs.take(pair, *size);
        admission.all.bytes.fetch_sub(*size, Ordering::AcqRel);
        admission.all.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// How many calls there are of each name; a name without calls takes no place.
#[derive(Debug)]
struct Tally {
    segments: Segments<HashMap<String, Count>>,
    names: AtomicUsize,
}

/// What one name has.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    calls: usize,
    bytes: usize,
}

impl Tally {
    fn new() -> Self {
        Self { segments: Segments::new(HashMap::default), names: AtomicUsize::new(0) }
    }

    /// One call more; gives what there is now.
    fn add(&self, name: &str, bytes: usize) -> Count {
        let mut counts = self.segments.of(name);
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

    /// One call less.
    fn take(&self, name: &str, bytes: usize) {
        let mut counts = self.segments.of(name);
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

    fn fill(admission: &Arc<Admission>, session: &str, workers: Option<usize>) -> Vec<Permit> {
        std::iter::from_fn(|| admission.enter("skill", session, 0, workers).ok()).collect()
    }

    #[test]
    fn the_last_place_is_given_once_and_comes_back() {
        let admission = Admission::new(1, 10);
        let first = admission.enter("skill", "", 0, None);
        assert_eq!(admission.enter("skill", "", 0, None).unwrap_err(), Full::Gateway);
        drop(first);
        assert!(admission.enter("skill", "", 0, None).is_ok());
        assert_eq!(admission.in_flight(), 0);
    }

    #[test]
    fn a_session_that_floods_leaves_room_for_others() {
        let admission = Admission::new(100, 1000);
        let flood = fill(&admission, "flood", None);
        assert!((79..=81).contains(&flood.len()), "{}", flood.len());
        assert!(fill(&admission, "modest", None).len() >= 15);
    }

    #[test]
    fn many_sessions_that_flood_get_like_shares() {
        let admission = Admission::new(100, 1000);
        let mut held: [Vec<Permit>; 4] = Default::default();
        for _ in 0..100 {
            for (number, mine) in held.iter_mut().enumerate() {
                mine.extend(admission.enter("skill", &number.to_string(), 0, None));
            }
        }
        let counts = held.map(|mine| mine.len());
        assert!(counts.iter().all(|count| (22..=25).contains(count)), "{counts:?}");
    }

    #[test]
    fn what_the_workers_may_have_bounds_it_too() {
        let admission = Admission::new(100, 1000);
        assert_eq!(fill(&admission, "one", Some(10)).len(), 8);
    }

    #[test]
    fn a_modest_session_is_let_in_when_the_workers_may_have_less_than_they_have() {
        let admission = Admission::new(1000, 1000);
        let _flood = fill(&admission, "flood", Some(500));
        let modest = fill(&admission, "modest", Some(100));
        assert_eq!(modest.len(), 25);
        assert_eq!(admission.enter("skill", "flood", 0, Some(100)).unwrap_err(), Full::Gateway);
    }

    #[test]
    fn large_arguments_take_more_than_a_place() {
        let admission = Admission::new(100, 100);
        let held = admission.enter("skill", "", MAX_BYTES / 2, None);
        assert!(held.is_ok());
        assert_eq!(admission.enter("skill", "other", MAX_BYTES, None).unwrap_err(), Full::Gateway);
        drop(held);
        assert!(admission.enter("skill", "other", MAX_BYTES / 2, None).is_ok());
    }

    #[test]
    fn a_skill_has_its_own_bound() {
        let admission = Admission::new(100, 3);
        let _held = fill(&admission, "one", None);
        assert_eq!(admission.enter("skill", "two", 0, None).unwrap_err(), Full::Skill);
        assert!(admission.enter("other", "two", 0, None).is_ok());
    }

    #[test]
    fn a_session_can_not_take_a_whole_skill_nor_all_bytes() {
        let admission = Admission::new(10_000, 100);
        let flood = fill(&admission, "flood", None);
        assert!((79..=81).contains(&flood.len()), "{}", flood.len());
        assert!(!fill(&admission, "modest", None).is_empty());
        let admission = Admission::new(10_000, 10_000);
        let large = || admission.enter("skill", "flood", MAX_BYTES / 100, None).ok();
        let flood: Vec<_> = std::iter::from_fn(large).collect();
        assert!((79..=81).contains(&flood.len()), "{}", flood.len());
        assert!(admission.enter("skill", "modest", MAX_BYTES / 100, None).is_ok());
    }

    #[test]
    fn names_without_calls_take_no_place() {
        let admission = Admission::new(100, 100);
        for number in 0..1000 {
            drop(admission.enter(&format!("skill-{number}"), &format!("session-{number}"), 1, None));
        }
        for tally in [&admission.sessions, &admission.skills, &admission.pairs] {
            let kept: usize = tally.segments.all().map(|segment| segment.len()).sum();
            assert_eq!((kept, tally.names()), (0, 0));
        }
    }
}
