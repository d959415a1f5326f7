//! The budget of a call. Resources are reserved before use, so the limits are never exceeded.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::research::Limits;

/// The fraction of a call's time that is reserved for its answer, with a lower and an upper bound.
const FOR_THE_ANSWER: f64 = 0.1;
const LEAST_FOR_THE_ANSWER: Duration = Duration::from_millis(100);
const MOST_FOR_THE_ANSWER: Duration = Duration::from_secs(2);

/// The budget of a call, with what is already used.
#[derive(Debug)]
pub(crate) struct Budget {
    pub(super) limits: Limits,
    started: Instant,
    /// When the budget's time ends.
    pub(super) ends: Instant,
    used: Mutex<BudgetUse>,
}

/// What a call has used of its budget.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct BudgetUse {
    pub(super) pages: usize,
    pub(super) bytes: u64,
    pub(super) tokens: u64,
    /// The time since the budget started.
    pub(super) time: Duration,
    /// The time reserved for the last step.
    kept: Duration,
}

impl Budget {
    /// Starts the budget now. It ends before the call's deadline, so that a slow call returns a partial answer
    /// instead of timing out.
    pub(crate) fn new(limits: Limits, now: Instant, deadline: Instant) -> Self {
        let until = deadline.saturating_duration_since(now);
        let kept = until.mul_f64(FOR_THE_ANSWER).clamp(LEAST_FOR_THE_ANSWER, MOST_FOR_THE_ANSWER);
        let ends = now + limits.time.min(until.saturating_sub(kept));
        Self { limits, started: now, ends, used: Mutex::default() }
    }

    /// Takes one page. Returns `false` if none is left.
    pub(super) fn take_page(&self) -> bool {
        let mut used = self.used.lock();
        let is_left = used.pages < self.limits.pages;
        used.pages += usize::from(is_left);
        is_left
    }

    /// Returns the number of pages left.
    pub(super) fn pages_left(&self) -> usize {
        self.limits.pages.saturating_sub(self.used.lock().pages)
    }

    /// Takes up to `wanted` bytes. Returns how many were taken.
    pub(super) fn take_bytes(&self, wanted: usize) -> usize {
        let mut used = self.used.lock();
        let taken = (wanted as u64).min(self.limits.bytes.saturating_sub(used.bytes));
        used.bytes += taken;
        taken as usize
    }

    /// Takes all `wanted` tokens or none. Returns whether they were taken.
    pub(super) fn reserve_tokens(&self, wanted: u64) -> bool {
        let mut used = self.used.lock();
        let after = used.tokens.checked_add(wanted).filter(|it| *it <= self.limits.tokens);
        used.tokens = after.unwrap_or(used.tokens);
        after.is_some()
    }

    /// Returns tokens that were reserved but not used.
    pub(super) fn give_back_tokens(&self, unused: u64) {
        let mut used = self.used.lock();
        used.tokens = used.tokens.saturating_sub(unused);
    }

    /// Reserves this fraction of the total time for the last step. 0 releases the reserved time.
    pub(super) fn keep(&self, part: f64) {
        self.used.lock().kept = self.ends.saturating_duration_since(self.started).mul_f64(part);
    }

    /// Returns the remaining time, without the reserved time.
    pub(super) fn remaining(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now()).saturating_sub(self.used.lock().kept)
    }

    /// Returns the remaining time until only this fraction of the total time is left.
    pub(super) fn remaining_before(&self, part: f64) -> Duration {
        let whole = self.ends.saturating_duration_since(self.started);
        self.remaining().saturating_sub(whole.mul_f64(part))
    }

    /// Returns the name of an exhausted limit, for a warning.
    pub(super) fn exhausted_limit(&self) -> Option<&'static str> {
        if self.remaining().is_zero() {
            Some("time")
        } else if self.used.lock().bytes >= self.limits.bytes {
            Some("bytes")
        } else if self.pages_left() == 0 {
            Some("pages")
        } else {
            None
        }
    }

    /// Returns what is already used.
    pub(super) fn used(&self) -> BudgetUse {
        BudgetUse { time: self.started.elapsed(), ..*self.used.lock() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_taken_than_there_is() {
        let limits = Limits { pages: 2, bytes: 10, tokens: 5, ..Limits::default() };
        let now = Instant::now();
        let budget = Budget::new(limits, now, now + Duration::from_secs(10));
        assert_eq!([budget.take_page(), budget.take_page(), budget.take_page()], [true, true, false]);
        assert_eq!([budget.take_bytes(7), budget.take_bytes(7), budget.take_bytes(7)], [7, 3, 0]);
        assert_eq!([budget.reserve_tokens(4), budget.reserve_tokens(4)], [true, false]);
        budget.give_back_tokens(3);
        assert!(budget.reserve_tokens(4));
        assert_eq!(budget.ends - now, Duration::from_secs(9));
        assert_eq!(budget.exhausted_limit(), Some("bytes"));
    }

    #[test]
    fn time_is_kept_for_what_comes_last() {
        let now = Instant::now();
        let budget = Budget::new(Limits::default(), now, now + Duration::from_secs(600));
        budget.keep(0.5);
        assert!(budget.remaining() <= Duration::from_secs(30));
        budget.keep(0.0);
        assert!(budget.remaining() > Duration::from_secs(30));
    }

    #[test]
    fn it_ends_before_the_deadline() {
        let now = Instant::now();
        let of = |time, until| {
            let limits = Limits { time: Duration::from_secs(time), ..Limits::default() };
            Budget::new(limits, now, now + Duration::from_millis(until)).ends - now
        };
        assert_eq!(of(60, 600_000), Duration::from_secs(60));
        assert_eq!(of(60, 60_000), Duration::from_secs(58));
        assert_eq!(of(60, 50), Duration::ZERO);
    }
}
