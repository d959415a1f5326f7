//! How many calls may be run a second time: a share of all calls, so that retries never make an outage worse.

use std::sync::atomic::{AtomicU32, Ordering};

/// One retry for this many calls: 20 %.
const CALLS_PER_RETRY: u32 = 5;

/// Retries that may be saved up, and those there are at the start, so that a quiet gateway has some.
const MOST: u32 = 100 * CALLS_PER_RETRY;
const FIRST: u32 = 10 * CALLS_PER_RETRY;

/// The budget of one gateway. Each call pays in one; a retry costs [`CALLS_PER_RETRY`].
#[derive(Debug)]
pub(crate) struct RetryBudget(AtomicU32);

impl Default for RetryBudget {
    fn default() -> Self {
        Self(AtomicU32::new(FIRST))
    }
}

impl RetryBudget {
    /// A call is made.
    pub(crate) fn pay_in(&self) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| (saved < MOST).then_some(saved + 1));
    }

    /// Takes one retry. False if there is none left.
    pub(crate) fn take(&self) -> bool {
        let take = |saved: u32| saved.checked_sub(CALLS_PER_RETRY);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_the_long_run_one_call_in_five_is_tried_again() {
        let budget = RetryBudget::default();
        while budget.take() {}
        let retries = (0..10_000).filter(|_| {
            budget.pay_in();
            budget.take()
        });
        assert_eq!(retries.count(), 2000);
    }

    #[test]
    fn what_is_saved_up_is_bounded() {
        let budget = RetryBudget::default();
        (0..100_000).for_each(|_| budget.pay_in());
        assert_eq!((0..1000).filter(|_| budget.take()).count(), 100);
    }
}
