//! The budget of a call. Resources are reserved before use, so the limits are never exceeded.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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
    ends: Instant,
    pages: AtomicUsize,
    bytes: AtomicU64,
    tokens: AtomicU64,
    /// The time reserved for the last step, in milliseconds.
    kept_ms: AtomicU64,
}

impl Budget {
    /// Starts the budget now. It ends before the call's deadline, so that a slow call returns a partial answer
    /// instead of timing out.
    pub(crate) fn new(limits: Limits, now: Instant, deadline: Instant) -> Self {
        let until = deadline.saturating_duration_since(now);
        let kept = until.mul_f64(FOR_THE_ANSWER).clamp(LEAST_FOR_THE_ANSWER, MOST_FOR_THE_ANSWER);
        let ends = now + limits.time.min(until.saturating_sub(kept));
        Self {
            limits,
            started: now,
            ends,
            pages: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            kept_ms: AtomicU64::new(0),
        }
    }

    /// Takes one page. Returns `false` if none is left.
    pub(super) fn take_page(&self) -> bool {
        let most = self.limits.pages;
        self.pages.try_update(Ordering::Relaxed, Ordering::Relaxed, |used| (used < most).then_some(used + 1)).is_ok()
    }

    /// Returns the number of pages left.
    pub(super) fn pages_left(&self) -> usize {
        self.limits.pages.saturating_sub(self.pages.load(Ordering::Relaxed))
    }

    /// Takes up to `wanted` bytes. Returns how many were taken.
    pub(super) fn take_bytes(&self, wanted: usize) -> usize {
        take(&self.bytes, self.limits.bytes, wanted as u64) as usize
    }

    /// Takes all `wanted` tokens or none. Returns whether they were taken.
    pub(super) fn reserve_tokens(&self, wanted: u64) -> bool {
        let most = self.limits.tokens;
        let reserve = |used: u64| used.checked_add(wanted).filter(|it| *it <= most);
        self.tokens.try_update(Ordering::Relaxed, Ordering::Relaxed, reserve).is_ok()
    }

    /// Returns tokens that were reserved but not used.
    pub(super) fn give_back_tokens(&self, unused: u64) {
        let give = |used: u64| Some(used.saturating_sub(unused));
        let _ = self.tokens.try_update(Ordering::Relaxed, Ordering::Relaxed, give);
    }

    /// Reserves this fraction of the total time for the last step. 0 releases the reserved time.
    pub(super) fn keep(&self, part: f64) {
        let kept = self.ends.saturating_duration_since(self.started).mul_f64(part);
        self.kept_ms.store(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Returns the remaining time, without the reserved time.
    pub(super) fn remaining(&self) -> Duration {
        let kept = Duration::from_millis(self.kept_ms.load(Ordering::Relaxed));
        self.ends.saturating_duration_since(Instant::now()).saturating_sub(kept)
    }

    /// Returns the remaining time until only this fraction of the total time is left.
    pub(super) fn remaining_before(&self, part: f64) -> Duration {
        let whole = self.ends.saturating_duration_since(self.started);
        self.remaining().saturating_sub(whole.mul_f64(part))
    }

    /// Returns when the budget's time ends.
    pub(super) fn ends(&self) -> Instant {
        self.ends
    }

    /// Returns the name of an exhausted limit, for a warning.
    pub(super) fn exhausted_limit(&self) -> Option<&'static str> {
        if self.remaining().is_zero() {
            Some("time")
        } else if self.bytes.load(Ordering::Relaxed) >= self.limits.bytes {
            Some("bytes")
        } else if self.pages_left() == 0 {
            Some("pages")
        } else {
            None
        }
    }

    /// Returns the used pages, bytes, tokens and time.
    pub(super) fn usage(&self) -> (usize, u64, u64, Duration) {
        let (pages, bytes) = (self.pages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        (pages, bytes, self.tokens.load(Ordering::Relaxed), self.started.elapsed())
    }
}

fn take(used: &AtomicU64, most: u64, wanted: u64) -> u64 {
    let mut taken = 0;
    let _ = used.try_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
        taken = wanted.min(most.saturating_sub(used));
        Some(used + taken)
    });
    taken
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
        assert_eq!(budget.ends() - now, Duration::from_secs(9));
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
            Budget::new(limits, now, now + Duration::from_millis(until)).ends() - now
        };
        assert_eq!(of(60, 600_000), Duration::from_secs(60));
        assert_eq!(of(60, 60_000), Duration::from_secs(58));
        assert_eq!(of(60, 50), Duration::ZERO);
    }
}
