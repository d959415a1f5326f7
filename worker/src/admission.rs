//! Admission: how many calls a worker accepts, and how many of them run at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The worker's concurrency limit and its queue.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    running: Arc<Semaphore>,
    admitted: Arc<AtomicUsize>,
    most_admitted: usize,
}

/// What admission grants a call: it is queued or running until this is dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    admitted: Arc<AtomicUsize>,
}

/// The right to run now. Free again when its last clone is dropped: everything that works on the call holds one.
#[derive(Debug, Clone)]
pub struct Slot {
    _permits: Arc<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>)>,
}

impl Admission {
    pub(crate) fn new(concurrency: usize, queue: usize) -> Self {
        let running = Arc::new(Semaphore::new(concurrency));
        Self { running, admitted: Arc::default(), most_admitted: concurrency + queue }
    }

    /// Admits a call, or says at once that the worker is full.
    pub(crate) fn admit(&self) -> Option<Permit> {
        let permit = Permit { admitted: Arc::clone(&self.admitted) };
        // On refusal the permit's drop takes the count back.
        (self.admitted.fetch_add(1, Ordering::AcqRel) < self.most_admitted).then_some(permit)
    }

    /// Waits for a slot, in order of arrival, and says how long the call waited for the worker. A skill's own concurrency
    /// limit comes first, so that a call that waits for it takes no slot from other skills; that wait says nothing of how
    /// busy the worker is.
    pub(crate) async fn slot(&self, skill: Option<Arc<Semaphore>>) -> (Slot, Duration) {
        // The semaphores are never closed, so these can't fail.
        let skill = match skill {
            Some(skill) => skill.acquire_owned().await.ok(),
            None => None,
        };
        let asked = Instant::now();
        loop {
            if let Ok(worker) = Arc::clone(&self.running).acquire_owned().await {
                return (Slot { _permits: Arc::new((worker, skill)) }, asked.elapsed());
            }
        }
    }

    /// How many calls are queued or running.
    pub(crate) fn in_flight(&self) -> usize {
        self.admitted.load(Ordering::Acquire)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.admitted.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_full_worker_refuses_at_once_and_admits_again_when_a_permit_is_dropped() {
        let admission = Admission::new(1, 1);
        let (first, second) = (admission.admit(), admission.admit());
        assert!(first.is_some() && second.is_some() && admission.admit().is_none());
        drop(first);
        assert!(admission.admit().is_some());
        assert_eq!(admission.in_flight(), 1);
    }

    #[tokio::test]
    async fn a_call_that_waits_for_its_skills_limit_takes_no_slot() {
        let admission = Admission::new(1, 10);
        let skill = Arc::new(Semaphore::new(0));
        let mut waiting = Box::pin(admission.slot(Some(skill)));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert!(futures_util::poll!(Box::pin(admission.slot(None))).is_ready());
    }
}
