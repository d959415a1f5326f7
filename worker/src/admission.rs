//! How many calls run at once, and how many may wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The worker's places.
#[derive(Debug, Clone)]
pub(crate) struct Admission {
    running: Arc<Semaphore>,
    inside: Arc<AtomicUsize>,
    most_inside: usize,
}

/// A call that was let in: it runs or waits.
#[derive(Debug)]
pub(crate) struct Ticket {
    inside: Arc<AtomicUsize>,
}

/// A place among the calls that run. Free again when the last of its clones is dropped: all that works on the call has one.
#[derive(Debug, Clone)]
pub struct Slot {
    _permits: Arc<(OwnedSemaphorePermit, Option<OwnedSemaphorePermit>)>,
}

impl Admission {
    pub(crate) fn new(concurrency: usize, queue: usize) -> Self {
        let running = Arc::new(Semaphore::new(concurrency));
        Self { running, inside: Arc::default(), most_inside: concurrency + queue }
    }

    /// Lets a call in, or says at once that all places are taken.
    pub(crate) fn enter(&self) -> Option<Ticket> {
        let ticket = Ticket { inside: Arc::clone(&self.inside) };
        // On refusal the ticket's drop takes the count back.
        (self.inside.fetch_add(1, Ordering::AcqRel) < self.most_inside).then_some(ticket)
    }

    /// Waits for a place, in order of arrival, and says how long it waited for the worker. A skill's own limit comes first,
    /// so that a call that waits for it does not take a place from other skills; that wait is the skill's affair and says
    /// nothing of how busy the worker is.
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

    pub(crate) fn in_flight(&self) -> usize {
        self.inside.load(Ordering::Acquire)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.inside.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_does_not_fit_is_refused_at_once_and_fits_when_a_place_is_free() {
        let admission = Admission::new(1, 1);
        let (first, second) = (admission.enter(), admission.enter());
        assert!(first.is_some() && second.is_some() && admission.enter().is_none());
        drop(first);
        assert!(admission.enter().is_some());
        assert_eq!(admission.in_flight(), 1);
    }

    #[tokio::test]
    async fn a_call_that_waits_for_its_skill_takes_no_place_from_others() {
        let admission = Admission::new(1, 10);
        let skill = Arc::new(Semaphore::new(0));
        let mut waiting = Box::pin(admission.slot(Some(skill)));
        assert!(futures_util::poll!(&mut waiting).is_pending());
        assert!(futures_util::poll!(Box::pin(admission.slot(None))).is_ready());
    }
}
