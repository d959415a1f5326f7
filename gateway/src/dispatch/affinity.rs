//! Session affinity: for some skills, all calls of a session go to the same worker, which has the session's state.
//!
//! Rendezvous hashing assigns new sessions, so that all gateways choose the same worker, and few choices change
//! when a worker joins or leaves. An assigned session stays with its worker, even if workers join. When its
//! worker's process ends, the session's state is lost: one call fails with that reason, and the next one starts a
//! new session elsewhere.

use openskill_proto::v1::Skill;
use parking_lot::Mutex;

use super::pick::{Criteria, eligible};
use crate::call::request::Call;
use crate::state::fair::FairRecent;
use crate::state::key;
use crate::state::limits::SharedLimit;
use crate::workers::candidate::Candidate;

/// The workers to which sessions are assigned. When full, evicts the least recently used session of the principal
/// that has the most. An evicted session is assigned again.
#[derive(Debug)]
pub(crate) struct Affinity(Mutex<FairRecent<Hold>>);

#[derive(Debug)]
struct Hold {
    /// Identifies the worker's process.
    instance: String,
    /// Whether a call of the session has started there.
    is_used: bool,
}

/// Identifies a principal's session, and the skills that share its state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AffinityKey(String);

impl AffinityKey {
    /// Builds the key for a call of this skill. A skill without a toolset shares its state with no other skill. None if
    /// the skill keeps no state for the call.
    pub(crate) fn for_call(call: &Call, skill: &Skill) -> Option<Self> {
        let is_kept = skill.session_affinity && (skill.caller_affinity || !call.session_id.is_empty());
        let group = if skill.toolset.is_empty() { &call.skill_id } else { &skill.toolset };
        is_kept.then(|| Self::new(call.principal.name(), &call.session_id, group))
    }

    fn new(principal: &str, session: &str, group: &str) -> Self {
        Self(key::join([principal, session, group]))
    }
}

impl Default for Affinity {
    fn default() -> Self {
        Self(Mutex::new(FairRecent::new(SharedLimit::Affinity.bound())))
    }
}

impl Affinity {
    /// Returns the worker process that the session is assigned to. None for a new session.
    pub(crate) fn holder(&self, key: &AffinityKey) -> Option<String> {
        self.0.lock().use_mut(&key.0).map(|hold| hold.instance.clone())
    }

    /// Assigns a new session to the eligible worker with the highest weight. None if no worker is eligible.
    pub(crate) fn assign(
        &self,
        key: &AffinityKey,
        candidates: &[Candidate],
        criteria: Criteria<'_>,
    ) -> Option<Candidate> {
        let [principal, session] = key::split(&key.0);
        let session = key::join([principal, session]);
        let eligible = eligible(candidates, criteria).into_iter();
        let chosen = eligible.max_by_key(|it| weight(&session, &it.worker.id()))?;
        let mut held = self.0.lock();
        // A concurrent call of the session may have assigned it first.
        if let Some(hold) = held.use_mut(&key.0)
            && let Some(candidate) = candidates.iter().find(|it| it.worker.instance() == hold.instance)
        {
            return Some(candidate.clone());
        }
        held.insert(&key.0, Hold { instance: chosen.worker.instance(), is_used: false });
        Some(chosen.clone())
    }

    /// Records whether a call of the session started at its worker. Cancels the assignment if no call has.
    pub(crate) fn settle(&self, key: &AffinityKey, instance: &str, began: bool) {
        let mut held = self.0.lock();
        let Some(hold) = held.use_mut(&key.0).filter(|hold| hold.instance == instance) else { return };
        hold.is_used |= began;
        if !hold.is_used {
            held.remove(&key.0);
        }
    }

    /// Cancels the session's assignment.
    pub(crate) fn release(&self, key: &AffinityKey) {
        self.0.lock().remove(&key.0);
    }
}

/// Returns the weight of a worker for a session, which is the same in every gateway.
fn weight(session: &str, worker_id: &str) -> u64 {
    // FNV-1a over both, then the finalizer of splitmix64, because FNV alone mixes the last bytes too little.
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
