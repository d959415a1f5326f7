//! What a call may use. Nothing is used that was not taken here before, so the limits hold exactly.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::config::research::Limits;

/// The part of a call's time that is kept for its answer, and its bounds.
const FOR_THE_ANSWER: f64 = 0.1;
const LEAST_FOR_THE_ANSWER: Duration = Duration::from_millis(100);
const MOST_FOR_THE_ANSWER: Duration = Duration::from_secs(2);

/// The budget of a call.
#[derive(Debug)]
pub(in crate::runners::in_process) struct Budget {
    pub(super) limits: Limits,
    started: Instant,
    ends: Instant,
    pages: AtomicUsize,
    bytes: AtomicU64,
    tokens: AtomicU64,
    /// Milliseconds that are kept for what comes last.
    kept_ms: AtomicU64,
}

impl Budget {
    /// Begins now, and ends before the call's deadline, so that a late answer is a partial one and no timeout.
    pub(in crate::runners::in_process) fn new(limits: Limits, now: Instant, deadline: Instant) -> Self {
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

    /// Takes one page. False: there are no more.
    pub(super) fn take_page(&self) -> bool {
        let most = self.limits.pages;
        self.pages.try_update(Ordering::Relaxed, Ordering::Relaxed, |used| (used < most).then_some(used + 1)).is_ok()
    }

    /// How many pages are left.
    pub(super) fn pages_left(&self) -> usize {
        self.limits.pages.saturating_sub(self.pages.load(Ordering::Relaxed))
    }

    /// Takes bytes, and says how many of them there were.
    pub(super) fn take_bytes(&self, wanted: usize) -> usize {
        take(&self.bytes, self.limits.bytes, wanted as u64) as usize
    }

    /// Takes all these tokens, or none.
    pub(super) fn reserve_tokens(&self, wanted: u64) -> bool {
        let most = self.limits.tokens;
        let reserve = |used: u64| used.checked_add(wanted).filter(|it| *it <= most);
        self.tokens.try_update(Ordering::Relaxed, Ordering::Relaxed, reserve).is_ok()
    }

    /// Gives tokens back that were reserved and not used.
    pub(super) fn give_back_tokens(&self, unused: u64) {
        let give = |used: u64| Some(used.saturating_sub(unused));
        let _ = self.tokens.try_update(Ordering::Relaxed, Ordering::Relaxed, give);
    }

    /// Keeps this part of the time for what comes last. 0 gives it back.
    pub(super) fn keep(&self, part: f64) {
        let kept = self.ends.saturating_duration_since(self.started).mul_f64(part);
        self.kept_ms.store(u64::try_from(kept.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How much time is left, without what is kept.
    pub(super) fn left(&self) -> Duration {
        let kept = Duration::from_millis(self.kept_ms.load(Ordering::Relaxed));
        self.ends.saturating_duration_since(Instant::now()).saturating_sub(kept)
    }

    /// How much time is left before this part of the whole, which is kept for something else.
    pub(super) fn left_before(&self, part: f64) -> Duration {
        let whole = self.ends.saturating_duration_since(self.started);
        self.left().saturating_sub(whole.mul_f64(part))
    }

    /// When it ends.
    pub(super) fn ends(&self) -> Instant {
        self.ends
    }

    /// What is used up, in a word for a warning.
    pub(super) fn exhausted(&self) -> Option<&'static str> {
        if self.left().is_zero() {
            Some("time")
        } else if self.bytes.load(Ordering::Relaxed) >= self.limits.bytes {
            Some("bytes")
        } else if self.pages_left() == 0 {
            Some("pages")
        } else {
            None
        }
    }

    /// Pages, bytes, tokens and time so far.
    pub(super) fn used(&self) -> (usize, u64, u64, Duration) {
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
        assert_eq!(budget.exhausted(), Some("bytes"));
    }

    #[test]
    fn time_is_kept_for_what_comes_last() {
        let now = Instant::now();
        let budget = Budget::new(Limits::default(), now, now + Duration::from_secs(600));
        budget.keep(0.5);
        assert!(budget.left() <= Duration::from_secs(30));
        budget.keep(0.0);
        assert!(budget.left() > Duration::from_secs(30));
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
