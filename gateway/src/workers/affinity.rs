//! Which worker holds a session, for skills whose calls of one session go to one worker.
//!
//! A session that is new goes where rendezvous hashing says, so that all gateways choose alike and a worker that comes or
//! goes moves few sessions. After that it stays, also when workers come. When its worker's process is gone, what it held
//! there is gone too: one call is told so, and the next one begins anew elsewhere.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::pick::{Candidate, Nobody, Wanted, choices};
use crate::pair;
use crate::recent::Recent;

/// How many sessions are remembered for sure. Those that were not used the longest are forgotten first, and chosen for
/// again.
const SESSIONS: usize = 32 * 1024;

/// Who holds which session, by session and group of skills.
#[derive(Debug)]
pub(crate) struct Affinity(Mutex<Recent<Hold>>);

#[derive(Debug)]
struct Hold {
    /// The worker's process.
    instance: String,
    /// A call of the session began there.
    is_used: bool,
}

/// A session, and the skills that share its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionKey {
    session: String,
    whole: String,
}

impl SessionKey {
    /// `group` is a toolset, or a skill that has none.
    pub(crate) fn new(session: &str, group: &str) -> Self {
        Self { session: session.to_owned(), whole: pair::join(session, group) }
    }
}

impl Default for Affinity {
    fn default() -> Self {
        Self(Mutex::new(Recent::new(SESSIONS)))
    }
}

impl Affinity {
    fn held(&self) -> MutexGuard<'_, Recent<Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker process that holds the session, if it is not new.
    pub(crate) fn holder(&self, key: &SessionKey) -> Option<String> {
        self.held().use_mut(&key.whole).map(|hold| hold.instance.clone())
    }

    /// Chooses who is to hold a new session: of those that a call may go to, the one with the highest weight.
    pub(crate) fn hold(
        &self,
        key: &SessionKey,
        candidates: &[Candidate],
        wanted: Wanted<'_>,
    ) -> Result<Candidate, Nobody> {
        let choices = choices(candidates, wanted)?;
        let chosen = choices.into_iter().max_by_key(|it| weight(&key.session, &it.worker.id())).ok_or(Nobody::IsUp)?;
        let mut held = self.held();
        // Another call of the session may have been quicker.
        if let Some(hold) = held.use_mut(&key.whole)
            && let Some(candidate) = candidates.iter().find(|it| it.worker.instance() == hold.instance)
        {
            return Ok(candidate.clone());
        }
        held.insert(key.whole.clone(), Hold { instance: chosen.worker.instance(), is_used: false });
        Ok(chosen.clone())
    }

    /// A call of the session began at its holder, or could not. A holder that no call ever reached holds nothing.
    pub(crate) fn settle(&self, key: &SessionKey, instance: &str, began: bool) {
        let mut held = self.held();
        let Some(hold) = held.use_mut(&key.whole).filter(|hold| hold.instance == instance) else { return };
        hold.is_used |= began;
        if !hold.is_used {
            held.remove(&key.whole);
        }
    }

    /// Forgets who holds the session.
    pub(crate) fn release(&self, key: &SessionKey) {
        self.held().remove(&key.whole);
    }
}

/// The weight of a worker for a session: the same in every gateway.
fn weight(session: &str, worker_id: &str) -> u64 {
    // FNV-1a over both, then the finisher of splitmix64, since FNV alone leaves the last bytes' weight small.
    let bytes = session.bytes().chain([0]).chain(worker_id.bytes());
    let hash = bytes
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use openskill_proto::v1::WorkerState;

    use super::super::Worker;
    use super::super::source::Endpoint;
    use super::*;

    fn candidate(number: usize) -> Candidate {
        let id = format!("w{number}");
        let worker = Worker::new(Endpoint::Tcp(id.clone()), 1);
        worker.learn(WorkerState { instance_id: format!("of {id}"), worker_id: id, ..WorkerState::default() });
        Candidate { worker: Arc::new(worker), latency: Arc::default() }
    }

    fn fleet(count: usize) -> Vec<Candidate> {
        (0..count).map(candidate).collect()
    }

    fn hold(affinity: &Affinity, session: &str, fleet: &[Candidate]) -> String {
        let wanted = Wanted { tried: &[], left: Duration::from_secs(1), adaptive: true, now: Instant::now() };
        affinity.hold(&SessionKey::new(session, "browser"), fleet, wanted).unwrap().worker.id()
    }

    #[test]
    fn every_gateway_chooses_alike_and_sessions_spread() {
        let (one, other, fleet) = (Affinity::default(), Affinity::default(), fleet(4));
        let mut counts = std::collections::HashMap::new();
        for number in 0..1000 {
            let session = format!("session-{number}");
            let chosen = hold(&one, &session, &fleet);
            assert_eq!(chosen, hold(&other, &session, &fleet));
            *counts.entry(chosen).or_insert(0) += 1;
        }
        assert!(counts.len() == 4 && counts.values().all(|count| (180..=320).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_session_stays_when_workers_come() {
        let (affinity, small, large) = (Affinity::default(), fleet(2), fleet(8));
        for number in 0..100 {
            let session = format!("session-{number}");
            assert_eq!(hold(&affinity, &session, &small), hold(&affinity, &session, &large));
        }
    }

    #[test]
    fn a_holder_that_no_call_reached_holds_nothing_and_one_that_was_used_stays() {
        let (affinity, fleet, key) = (Affinity::default(), fleet(2), SessionKey::new("s", "browser"));
        let instance = |id: String| format!("of {id}");
        let first = instance(hold(&affinity, "s", &fleet));
        affinity.settle(&key, &first, false);
        assert_eq!(affinity.holder(&key), None);
        let second = instance(hold(&affinity, "s", &fleet));
        affinity.settle(&key, &second, true);
        affinity.settle(&key, &second, false);
        assert_eq!(affinity.holder(&key), Some(second));
    }

    #[test]
    fn a_session_that_was_released_is_chosen_for_again() {
        let (affinity, fleet) = (Affinity::default(), fleet(2));
        let chosen = hold(&affinity, "s", &fleet);
        let key = SessionKey::new("s", "browser");
        assert_eq!(affinity.holder(&key), Some(format!("of {chosen}")));
        affinity.release(&key);
        assert_eq!(affinity.holder(&key), None);
        let other = fleet.iter().find(|it| it.worker.id() != chosen).cloned().unwrap();
        assert_eq!(hold(&affinity, "s", std::slice::from_ref(&other)), other.worker.id());
    }
}
