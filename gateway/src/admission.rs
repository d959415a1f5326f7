//! How many calls the gateway has at once: in all, for one skill, for one session. Full means an answer at once, not a
//! wait.
//!
//! A session may hold four times as many places as are free. So one that floods leaves a fifth to the others, and several
//! that flood share the rest evenly (Choudhury and Hahne, "Dynamic Queue Length Thresholds for Shared-Memory Packet
//! Switches"). What workers may have changes, and may fall below what is inside; a session that holds less than half of an
//! even share is let in all the same, as long as the gateway itself has a place. Calls without a session are one session.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How many places a session may hold for each that is free.
const SHARE: usize = 4;

/// The arguments of all calls that have a place, in bytes.
const MAX_BYTES: usize = 512 * 1024 * 1024;

/// The gateway's places.
#[derive(Debug)]
pub(crate) struct Admission {
    inside: AtomicUsize,
    bytes: AtomicUsize,
    most: usize,
    most_of_skill: usize,
    sessions: Tally,
    skills: Tally,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admission: Arc<Admission>,
    session: String,
    skill: String,
    size: usize,
}

/// Why there is no place for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    Gateway,
    Session,
    Skill,
}

impl Admission {
    pub(crate) fn new(most: usize, most_of_skill: usize) -> Arc<Self> {
        let (sessions, skills) = (Tally::new(), Tally::new());
        Arc::new(Self {
            inside: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            most,
            most_of_skill,
            sessions,
            skills,
        })
    }

    /// A place for a call whose arguments have `size` bytes. `workers` is how many calls the workers may have, if that is known.
    pub(crate) fn enter(
        self: &Arc<Self>,
        skill: &str,
        session: &str,
        size: usize,
        workers: Option<usize>,
    ) -> Result<Permit, Full> {
        let most = self.most.min(workers.unwrap_or(self.most));
        let inside = self.inside.fetch_add(1, Ordering::AcqRel);
        // From here on the permit's drop takes back what was counted.
        let of_session = self.sessions.add(session);
        let of_skill = self.skills.add(skill);
        let bytes = self.bytes.fetch_add(size, Ordering::AcqRel).saturating_add(size);
        let (session, skill) = (session.to_owned(), skill.to_owned());
        let permit = Permit { admission: Arc::clone(self), session, skill, size };
        if inside >= self.most || bytes > MAX_BYTES {
            return Err(Full::Gateway);
        }
        let is_modest = 2 * of_session * self.sessions.names() <= most;
        if !is_modest && inside >= most {
            return Err(Full::Gateway);
        }
        if !is_modest && of_session > SHARE * (most - inside) {
            return Err(Full::Session);
        }
        if of_skill > self.most_of_skill {
            return Err(Full::Skill);
        }
        Ok(permit)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.inside.load(Ordering::Acquire)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admission.sessions.take(&self.session);
        self.admission.skills.take(&self.skill);
        self.admission.bytes.fetch_sub(self.size, Ordering::AcqRel);
        self.admission.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Locks, so that shards of the gateway seldom wait for one another.
const SEGMENTS: usize = 16;

/// How many calls there are of each name; a name without calls takes no place.
#[derive(Debug)]
struct Tally {
    segments: [Mutex<HashMap<String, usize>>; SEGMENTS],
    hasher: RandomState,
    names: AtomicUsize,
}

impl Tally {
    fn new() -> Self {
        Self { segments: Default::default(), hasher: RandomState::new(), names: AtomicUsize::new(0) }
    }

    /// One more; gives how many there are now.
    fn add(&self, name: &str) -> usize {
        let mut counts = self.segment(name);
        if let Some(count) = counts.get_mut(name) {
            *count += 1;
            return *count;
        }
        counts.insert(name.to_owned(), 1);
        self.names.fetch_add(1, Ordering::Relaxed);
        1
    }

    /// How many names have calls.
    fn names(&self) -> usize {
        self.names.load(Ordering::Relaxed)
    }

    /// One less.
    fn take(&self, name: &str) {
        let mut counts = self.segment(name);
        match counts.get_mut(name) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                counts.remove(name);
                self.names.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn segment(&self, name: &str) -> MutexGuard<'_, HashMap<String, usize>> {
        let segment = &self.segments[self.hasher.hash_one(name) as usize % SEGMENTS];
        segment.lock().unwrap_or_else(PoisonError::into_inner)
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
        let held = admission.enter("skill", "", MAX_BYTES, None);
        assert_eq!(admission.enter("skill", "", 1, None).unwrap_err(), Full::Gateway);
        drop(held);
        assert!(admission.enter("skill", "", 1, None).is_ok());
    }

    #[test]
    fn a_skill_has_its_own_bound() {
        let admission = Admission::new(100, 3);
        let _held = fill(&admission, "one", None);
        assert_eq!(admission.enter("skill", "two", 0, None).unwrap_err(), Full::Skill);
        assert!(admission.enter("other", "two", 0, None).is_ok());
    }

    #[test]
    fn names_without_calls_take_no_place() {
        let admission = Admission::new(100, 100);
        for number in 0..1000 {
            drop(admission.enter(&format!("skill-{number}"), &format!("session-{number}"), 1, None));
        }
        for tally in [&admission.sessions, &admission.skills] {
            let kept: usize = tally.segments.iter().map(|segment| segment.lock().unwrap().len()).sum();
            assert_eq!((kept, tally.names()), (0, 0));
        }
    }
}
