//! Session affinity: which worker holds a session, for skills whose calls of one session go to one worker.
//!
//! A new session goes where rendezvous hashing points, so that all gateways choose alike and a worker that joins or leaves
//! moves few sessions. After that it stays, also when workers join. When its worker's process is gone, so is the session's
//! state: one call fails with that reason, and the next starts anew elsewhere.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::pick::{Criteria, NoCandidate, eligible};
use crate::call::request::Call;
use crate::state::fair::FairRecent;
use crate::state::key;
use crate::state::limits::SharedLimit;
use crate::workers::candidate::Candidate;

/// Which worker holds which session. Past their number, the principal that has most loses the one that it used least recently: it
/// is assigned again.
#[derive(Debug)]
pub(crate) struct Affinity(Mutex<FairRecent<Hold>>);

#[derive(Debug)]
struct Hold {
    /// The worker's process.
    instance: String,
    /// A call of the session has started there.
    is_used: bool,
}

/// A session of a principal, and the skills that share its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AffinityKey {
    session: String,
    whole: String,
}

impl AffinityKey {
    /// The key of a call to a skill of this toolset. A skill without a toolset shares its state with no other.
    pub(crate) fn of(call: &Call, toolset: &str) -> Self {
        let group = if toolset.is_empty() { &call.skill_id } else { toolset };
        Self::new(call.principal.name(), &call.session_id, group)
    }

    fn new(principal: &str, session: &str, group: &str) -> Self {
        Self { session: key::join([principal, session]), whole: key::join([principal, session, group]) }
    }
}

impl Default for Affinity {
    fn default() -> Self {
        Self(Mutex::new(FairRecent::new(SharedLimit::Affinity.bound())))
    }
}

impl Affinity {
    fn held(&self) -> MutexGuard<'_, FairRecent<Hold>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The worker process that holds the session, if it is not new.
    pub(crate) fn holder(&self, key: &AffinityKey) -> Option<String> {
        self.held().use_mut(&key.whole).map(|hold| hold.instance.clone())
    }

    /// Assigns a new session to the eligible worker with the highest weight.
    pub(crate) fn assign(
        &self,
        key: &AffinityKey,
        candidates: &[Candidate],
        criteria: Criteria<'_>,
    ) -> Result<Candidate, NoCandidate> {
        let eligible = eligible(candidates, criteria)?;
        let heaviest = eligible.into_iter().max_by_key(|it| weight(&key.session, &it.worker.id()));
        let chosen = heaviest.ok_or(NoCandidate)?;
        let mut held = self.held();
        // Another call of the session may have been faster.
        if let Some(hold) = held.use_mut(&key.whole)
            && let Some(candidate) = candidates.iter().find(|it| it.worker.instance() == hold.instance)
        {
            return Ok(candidate.clone());
        }
        held.insert(&key.whole, Hold { instance: chosen.worker.instance(), is_used: false });
        Ok(chosen.clone())
    }

    /// A call of the session started at its holder, or could not. A holder that no call has reached is released.
    pub(crate) fn settle(&self, key: &AffinityKey, instance: &str, began: bool) {
        let mut held = self.held();
        let Some(hold) = held.use_mut(&key.whole).filter(|hold| hold.instance == instance) else { return };
        hold.is_used |= began;
        if !hold.is_used {
            held.remove(&key.whole);
        }
    }

    /// Forgets the session's holder.
    pub(crate) fn release(&self, key: &AffinityKey) {
        self.held().remove(&key.whole);
    }
}

/// The weight of a worker for a session, the same in every gateway.
fn weight(session: &str, worker_id: &str) -> u64 {
    // FNV-1a over both, then the finalizer of splitmix64: FNV alone mixes the last bytes too little.
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
    use std::time::Instant;

    use openskill_proto::v1::WorkerState;

    use super::*;
    use crate::workers::source::Endpoint;
    use crate::workers::worker::Worker;

    fn candidate(number: usize) -> Candidate {
        let id = format!("w{number}");
        let worker = Worker::new(Endpoint::Tcp(id.clone()), 1, None);
        worker.update(WorkerState { instance_id: format!("of {id}"), worker_id: id, ..WorkerState::default() });
        Candidate { worker: Arc::new(worker), latency: Arc::default(), definition_hash: "".into() }
    }

    fn fleet(count: usize) -> Vec<Candidate> {
        (0..count).map(candidate).collect()
    }

    fn hold(affinity: &Affinity, session: &str, fleet: &[Candidate]) -> String {
        let criteria = Criteria { tried: &[], now: Instant::now() };
        affinity.assign(&AffinityKey::new("", session, "browser"), fleet, criteria).unwrap().worker.id()
    }

    #[test]
    fn every_gateway_assigns_alike_and_sessions_spread() {
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
    fn a_session_stays_when_workers_join() {
        let (affinity, small, large) = (Affinity::default(), fleet(2), fleet(8));
        for number in 0..100 {
            let session = format!("session-{number}");
            assert_eq!(hold(&affinity, &session, &small), hold(&affinity, &session, &large));
        }
    }

    #[test]
    fn a_holder_that_no_call_reached_is_released_and_a_used_one_stays() {
        let (affinity, fleet, key) = (Affinity::default(), fleet(2), AffinityKey::new("", "s", "browser"));
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
    fn a_released_session_is_assigned_again() {
        let (affinity, fleet) = (Affinity::default(), fleet(2));
        let chosen = hold(&affinity, "s", &fleet);
        let key = AffinityKey::new("", "s", "browser");
        assert_eq!(affinity.holder(&key), Some(format!("of {chosen}")));
        affinity.release(&key);
        assert_eq!(affinity.holder(&key), None);
        let other = fleet.iter().find(|it| it.worker.id() != chosen).cloned().unwrap();
        assert_eq!(hold(&affinity, "s", std::slice::from_ref(&other)), other.worker.id());
    }
}
