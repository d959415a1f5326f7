//! Picks a worker for a call: power of two choices on peak-EWMA latency times calls in flight.
//!
//! Picks the better of two random workers instead of the best of all, so that gateways with the same data do not
//! all pick the same worker (Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing").

use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::SkillError;

use crate::workers::candidate::Candidate;
use crate::workers::worker::Worker;

/// No untried worker is up.
pub(super) fn no_candidate() -> SkillError {
    SkillError::unavailable("no worker accepts this call now")
}

/// What to consider when picking a worker.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Criteria<'a> {
    /// The workers that the call has tried already.
    pub(crate) tried: &'a [Arc<Worker>],
    pub(crate) now: Instant,
}

/// Picks a worker that accepts calls and was not tried yet. None if there is none.
pub(crate) fn pick<'a>(candidates: &'a [Candidate], criteria: Criteria<'_>) -> Option<&'a Candidate> {
    let mut eligible = eligible(candidates, criteria);
    while !eligible.is_empty() {
        let chosen = better_of_two(&eligible, criteria.now);
        // Let only one of several concurrent calls probe an ejected worker.
        if eligible.len() == 1 || chosen.worker.record.claim(criteria.now) {
            return Some(chosen);
        }
        eligible.retain(|it| !std::ptr::eq(*it, chosen));
    }
    None
}

/// Returns all such workers. Ejected workers are eligible only if all are ejected.
pub(super) fn eligible<'a>(candidates: &'a [Candidate], criteria: Criteria<'_>) -> Vec<&'a Candidate> {
    let was_tried = |worker: &Arc<Worker>| criteria.tried.iter().any(|tried| Arc::ptr_eq(tried, worker));
    let untried = candidates.iter().filter(|it| it.worker.is_serving() && !was_tried(&it.worker));
    let (ejected, available): (Vec<_>, Vec<_>) = untried.partition(|it| it.worker.record.is_ejected(criteria.now));
    if available.is_empty() { ejected } else { available }
}

/// Returns the better of two random candidates. `among` must not be empty.
fn better_of_two<'a>(among: &[&'a Candidate], now: Instant) -> &'a Candidate {
    let count = among.len();
    let first = rand::random_range(0..count);
    if count == 1 {
        return among[first];
    }
    let second = (first + rand::random_range(1..count)) % count;
    let (one, other) = (among[first], among[second]);
    if is_sooner(other, one, now) { other } else { one }
}

fn is_sooner(one: &Candidate, other: &Candidate, now: Instant) -> bool {
    // A free slot beats any latency, which is an average of the past.
    let must_queue = |it: &Candidate| it.worker.in_flight() >= it.worker.record.capacity();
    let load = |it: &Candidate| f64::from(it.worker.in_flight()) + 1.0;
    let cost = match (one.latency.read(now), other.latency.read(now)) {
        (Some(mine), Some(yours)) => (mine * load(one), yours * load(other)),
        // Without a known latency, compare workers only by load.
        _ => (load(one), load(other)),
    };
    (must_queue(one), cost.0) < (must_queue(other), cost.1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use openskill_proto::v1::WorkerState;

    use super::*;
    use crate::workers::ejection::{THRESHOLD, Verdict};
    use crate::workers::record::CallReport;
    use crate::workers::source::Endpoint;

    fn candidate(name: &str, draining: bool) -> Candidate {
        let worker = Worker::new(Endpoint::Tcp(name.to_owned()), 1, None);
        worker.update(WorkerState { draining, capacity: 4, instance_id: name.to_owned(), ..WorkerState::default() });
        Candidate { worker: Arc::new(worker), latency: Arc::default(), definition_hash: "".into() }
    }

    fn criteria(tried: &[Arc<Worker>]) -> Criteria<'_> {
        Criteria { tried, now: Instant::now() }
    }

    fn share_of_first(candidates: &[Candidate]) -> usize {
        let first = |_: &usize| std::ptr::eq(pick(candidates, criteria(&[])).unwrap(), &raw const candidates[0]);
        (0..1000).filter(first).count()
    }

    fn fail(candidate: &Candidate) {
        for _ in 0..THRESHOLD {
            let epoch = candidate.worker.record.begin(Instant::now());
            let ended = CallReport { epoch, verdict: Verdict::Failure, queued: None, was_full: false, in_flight: 1 };
            candidate.worker.record.end(ended, Instant::now(), || true);
        }
    }

    #[test]
    fn the_less_busy_of_two_is_picked() {
        let candidates = [candidate("a", false), candidate("b", false)];
        let _busy = candidates[0].worker.begin();
        assert_eq!(share_of_first(&candidates), 0);
    }

    #[test]
    fn equal_workers_share_the_calls() {
        let share = share_of_first(&[candidate("a", false), candidate("b", false)]);
        assert!((300..700).contains(&share), "{share}");
    }

    #[test]
    fn a_slow_worker_gets_fewer_calls_though_it_is_less_busy() {
        let candidates = [candidate("a", false), candidate("b", false)];
        candidates[0].latency.observe(Duration::from_millis(100), Duration::from_millis(100), Instant::now());
        candidates[1].latency.observe(Duration::from_millis(10), Duration::from_millis(10), Instant::now());
        let _busy = [candidates[1].worker.begin(), candidates[1].worker.begin()];
        assert_eq!(share_of_first(&candidates), 0);
    }

    #[test]
    fn draining_drained_and_tried_workers_are_not_picked() {
        let candidates = [candidate("a", false), candidate("b", true), candidate("c", false)];
        candidates[2].worker.drain(true);
        let tried = [Arc::clone(&candidates[0].worker)];
        assert!(pick(&candidates, criteria(&tried)).is_none());
    }

    #[test]
    fn an_ejected_worker_is_picked_only_if_there_is_no_other() {
        let candidates = [candidate("a", false), candidate("b", false)];
        fail(&candidates[0]);
        assert_eq!(share_of_first(&candidates), 0);
        candidates[1].worker.drain(true);
        assert_eq!(share_of_first(&candidates), 1000);
    }

    #[test]
    fn a_busy_worker_is_picked_all_the_same_because_it_knows_whom_to_refuse() {
        let candidates = [candidate("a", false)];
        let _calls: Vec<_> =
            (0..candidates[0].worker.record.limit() * 3).map(|_| candidates[0].worker.begin()).collect();
        assert!(pick(&candidates, criteria(&[])).is_some());
    }
}
