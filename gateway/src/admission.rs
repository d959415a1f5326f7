//! How many calls the gateway has at once. Full means an answer at once, not a wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The gateway's places.
#[derive(Debug)]
pub(crate) struct Admission {
    inside: Arc<AtomicUsize>,
    most: usize,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub(crate) struct Permit(Arc<AtomicUsize>);

impl Admission {
    pub(crate) fn new(most: usize) -> Self {
        Self { inside: Arc::default(), most }
    }

    pub(crate) fn enter(&self) -> Option<Permit> {
        let permit = Permit(Arc::clone(&self.inside));
        // On refusal the permit's drop takes the count back.
        (self.inside.fetch_add(1, Ordering::AcqRel) < self.most).then_some(permit)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.inside.load(Ordering::Acquire)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::Admission;

    #[test]
    fn the_last_place_is_given_once_and_comes_back() {
        let admission = Admission::new(1);
        let first = admission.enter();
        assert!(first.is_some() && admission.enter().is_none());
        drop(first);
        assert!(admission.enter().is_some());
    }
}
