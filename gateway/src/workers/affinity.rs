//! Which worker holds a session, for skills whose calls of one session go to one worker.
//!
//! A session that is new goes where rendezvous hashing says, so that all gateways choose alike and a worker that comes or
//! goes moves few sessions. After that it stays, also when workers come. When its worker is gone, what it held there is
//! gone too: one call is told so, and the next one begins anew elsewhere.

use std::sync::{Arc, Mutex, PoisonError};

use super::Worker;
use crate::recent::Recent;

/// How many sessions are remembered. Those that were not used the longest are forgotten first, and chosen for again.
const MAX_SESSIONS: usize = 64 * 1024;

/// Who holds which session.
#[derive(Debug)]
pub(crate) struct Affinity {
    /// By session and group of skills: the worker's process.
    held: Mutex<Recent<String>>,
}

/// The worker that held the session is gone.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Gone;

impl Default for Affinity {
    fn default() -> Self {
        Self { held: Mutex::new(Recent::new(MAX_SESSIONS)) }
    }
}

impl Affinity {
    /// The worker for a call of the session. `group` is what shares the session's state: a toolset, or a skill that has
    /// none. None if no worker takes calls.
    pub(crate) fn choose(
        &self,
        session: &str,
        group: &str,
        workers: impl Iterator<Item = Arc<Worker>>,
    ) -> Result<Option<Arc<Worker>>, Gone> {
        let serving: Vec<_> = workers.filter_map(|it| it.serving().map(|state| (state, Arc::clone(&it)))).collect();
        let key = format!("{session}\0{group}");
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(holder) = held.use_mut(&key) {
            let found = serving.iter().find(|(state, _)| state.instance_id == *holder);
            if found.is_none() {
                held.remove(&key);
            }
            return found.map(|(_, worker)| Some(Arc::clone(worker))).ok_or(Gone);
        }
        let chosen = serving.into_iter().max_by_key(|(state, _)| weight(session, &state.worker_id));
        Ok(chosen.map(|(state, worker)| {
            held.insert(key, state.instance_id.clone());
            worker
        }))
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
    use openskill_proto::v1::WorkerState;

    use super::super::source::Endpoint;
    use super::*;

    fn worker(id: &str, instance: &str) -> Arc<Worker> {
        let worker = Worker::new(Endpoint::Tcp(id.to_owned()), 1);
        let state =
            WorkerState { worker_id: id.to_owned(), instance_id: instance.to_owned(), ..WorkerState::default() };
        worker.learn(state);
        Arc::new(worker)
    }

    fn fleet(count: usize) -> Vec<Arc<Worker>> {
        (0..count).map(|number| worker(&format!("w{number}"), &format!("i{number}"))).collect()
    }

    fn id(affinity: &Affinity, session: &str, fleet: &[Arc<Worker>]) -> String {
        affinity.choose(session, "browser", fleet.iter().cloned()).unwrap().unwrap().id()
    }

    #[test]
    fn every_gateway_chooses_alike_and_sessions_spread() {
        let (one, other, fleet) = (Affinity::default(), Affinity::default(), fleet(4));
        let mut counts = std::collections::HashMap::new();
        for number in 0..1000 {
            let session = format!("session-{number}");
            let chosen = id(&one, &session, &fleet);
            assert_eq!(chosen, id(&other, &session, &fleet));
            *counts.entry(chosen).or_insert(0) += 1;
        }
        assert!(counts.len() == 4 && counts.values().all(|count| (180..=320).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_session_stays_when_workers_come() {
        let (affinity, small, large) = (Affinity::default(), fleet(2), fleet(8));
        for number in 0..100 {
            let session = format!("session-{number}");
            assert_eq!(id(&affinity, &session, &small), id(&affinity, &session, &large));
        }
    }

    #[test]
    fn a_session_hears_once_that_its_worker_is_gone_and_begins_anew() {
        let affinity = Affinity::default();
        let first = worker("w1", "before");
        assert_eq!(id(&affinity, "s", &[first]), "w1");
        let again = worker("w1", "after");
        let choose = || affinity.choose("s", "browser", std::iter::once(Arc::clone(&again)));
        assert!(choose().is_err(), "the process is another one");
        assert_eq!(choose().unwrap().unwrap().id(), "w1");
    }
}
