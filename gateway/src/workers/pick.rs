//! Choosing a worker for a call: the one with the fewest calls of this gateway; among equals, any.

use std::sync::Arc;

use super::Worker;

/// The least busy worker that was not tried yet and still takes calls.
pub(crate) fn pick(workers: &[Arc<Worker>], tried: &[Arc<Worker>]) -> Option<Arc<Worker>> {
    let fresh = |worker: &&Arc<Worker>| !tried.iter().any(|it| Arc::ptr_eq(it, worker)) && worker.serving().is_some();
    // Each count is read once: other shards change them meanwhile.
    let candidates: Vec<_> = workers.iter().filter(fresh).map(|worker| (worker.in_flight(), worker)).collect();
    let least = candidates.iter().map(|(count, _)| *count).min()?;
    let equals: Vec<_> = candidates.into_iter().filter(|(count, _)| *count == least).collect();
    equals.get(rand::random_range(0..equals.len())).map(|(_, worker)| Arc::clone(worker))
}

#[cfg(test)]
mod tests {
    use openskill_proto::v1::WorkerState;

    use super::super::source::Endpoint;
    use super::*;

    fn worker(name: &str, draining: bool) -> Arc<Worker> {
        let worker = Worker::new(Endpoint::Tcp(name.to_owned()), 1);
        worker.state.store(Some(Arc::new(WorkerState { draining, ..WorkerState::default() })));
        Arc::new(worker)
    }

    #[test]
    fn the_least_busy_is_chosen() {
        let workers = [worker("a", false), worker("b", false)];
        let _busy = workers[0].begin();
        assert!(Arc::ptr_eq(&pick(&workers, &[]).unwrap(), &workers[1]));
    }

    #[test]
    fn equals_share_the_calls() {
        let workers = [worker("a", false), worker("b", false)];
        let first = (0..1000).filter(|_| Arc::ptr_eq(&pick(&workers, &[]).unwrap(), &workers[0])).count();
        assert!((300..700).contains(&first), "{first}");
    }

    #[test]
    fn one_that_drains_was_tried_or_is_held_is_left_out() {
        let workers = [worker("a", false), worker("b", true), worker("c", false)];
        workers[2].hold(true);
        assert!(pick(&workers, &workers[..1]).is_none());
    }
}
