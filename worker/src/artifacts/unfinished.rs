//! Bounds the memory of artifacts whose last chunk has not come, over all calls of a worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The most bytes that the unfinished artifacts of a worker hold together.
pub(super) const MAX_UNFINISHED_BYTES: usize = 256 * 1024 * 1024;

/// The budget of one worker.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    reserved_bytes: AtomicUsize,
}

/// A share of the budget, returned when it is dropped.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Unfinished>,
    bytes: usize,
}

impl Share {
    /// An empty share.
    pub(super) fn of(budget: &Arc<Unfinished>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Reserves this many bytes more. False, and nothing is reserved, if the budget does not have them.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let larger = |reserved: usize| reserved.checked_add(bytes).filter(|total| *total <= MAX_UNFINISHED_BYTES);
        let grown = self.budget.reserved_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, larger).is_ok();
        self.bytes += if grown { bytes } else { 0 };
        grown
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.reserved_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_never_exceeds_the_budget_and_returns_what_it_reserved() {
        let budget = Arc::default();
        let (mut one, mut two) = (Share::of(&budget), Share::of(&budget));
        assert!(one.grow(MAX_UNFINISHED_BYTES - 1) && two.grow(1));
        assert!(!one.grow(1) && !two.grow(usize::MAX));
        drop(one);
        assert!(two.grow(MAX_UNFINISHED_BYTES - 1) && !two.grow(1));
        drop(two);
        assert_eq!(budget.reserved_bytes.load(Ordering::Relaxed), 0);
    }
}
