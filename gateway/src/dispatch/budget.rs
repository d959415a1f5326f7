//! The retry budget: retries are a fraction of all calls, so that they can't make an outage worse.

use std::sync::atomic::{AtomicU32, Ordering};

/// The number of calls that pay for one retry, which limits retries to 20 %.
const CALLS_PER_RETRY: u32 = 5;

/// The maximum balance, which is also the initial one, so that a gateway with little traffic can retry, too.
const MOST: u32 = 100 * CALLS_PER_RETRY;
const FIRST: u32 = 10 * CALLS_PER_RETRY;

/// The budget of one gateway. Each call deposits one unit, and a retry costs [`CALLS_PER_RETRY`].
#[derive(Debug)]
pub(crate) struct RetryBudget(AtomicU32);

impl Default for RetryBudget {
    fn default() -> Self {
        Self(AtomicU32::new(FIRST))
    }
}

impl RetryBudget {
    /// Adds the deposit of one call.
    pub(crate) fn deposit(&self) {
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| (saved < MOST).then_some(saved + 1));
    }

    /// Pays for one retry. Returns false if the budget is spent.
    pub(crate) fn withdraw(&self) -> bool {
        let take = |saved: u32| saved.checked_sub(CALLS_PER_RETRY);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_in_five_is_retried_in_the_long_run() {
        let budget = RetryBudget::default();
        while budget.withdraw() {}
        let retries = (0..10_000).filter(|_| {
            budget.deposit();
            budget.withdraw()
        });
        assert_eq!(retries.count(), 2000);
    }

    #[test]
    fn the_balance_is_bounded() {
        let budget = RetryBudget::default();
        (0..100_000).for_each(|_| budget.deposit());
        assert_eq!((0..1000).filter(|_| budget.withdraw()).count(), 100);
    }
}
