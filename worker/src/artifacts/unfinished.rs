//! Limits the memory of all calls' incomplete artifacts.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The maximum total size of a worker's incomplete artifacts, in bytes.
pub(super) const MAX_UNFINISHED_BYTES: usize = 256 * 1024 * 1024;

/// A worker's budget for incomplete artifacts.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    reserved_bytes: AtomicUsize,
}

/// A reserved part of the budget. Dropping it frees the reservation.
#[derive(Debug)]
pub(super) struct Share {
    budget: Arc<Unfinished>,
    bytes: usize,
}

impl Share {
    /// Creates an empty share.
    pub(super) fn new(budget: &Arc<Unfinished>) -> Self {
        Self { budget: Arc::clone(budget), bytes: 0 }
    }

    /// Reserves this many more bytes. Returns false, and reserves nothing, if this exceeds the budget.
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
        let (mut one, mut two) = (Share::new(&budget), Share::new(&budget));
        assert!(one.grow(MAX_UNFINISHED_BYTES - 1) && two.grow(1));
        assert!(!one.grow(1) && !two.grow(usize::MAX));
        drop(one);
        assert!(two.grow(MAX_UNFINISHED_BYTES - 1) && !two.grow(1));
        drop(two);
        assert_eq!(budget.reserved_bytes.load(Ordering::Relaxed), 0);
    }
}
