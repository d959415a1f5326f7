//! The conditions that open a closed circuit: consecutive failures, or a failure rate.

use std::time::{Duration, Instant};

use super::rules::{SessionRules, SkillRules};

/// Counts the outcomes of calls while a circuit is closed.
pub(crate) trait Count: Default {
    /// Thresholds and timeouts.
    type Rules: Copy;

    /// Counts one call. Returns true if the circuit must open.
    fn count(&mut self, failed: bool, rules: &Self::Rules, now: Instant) -> bool;

    /// The number of failures that count at `now`.
    fn failures(&self, now: Instant) -> u32;

    /// Whether no call is counted.
    fn is_blank(&self) -> bool;

    /// How long an open circuit waits before it probes.
    fn recovery(rules: &Self::Rules) -> Duration;
}

/// Counts consecutive failures. A success resets the count.
#[derive(Debug, Default)]
pub(crate) struct Consecutive {
    failures: u32,
}

impl Count for Consecutive {
    type Rules = SessionRules;

    fn count(&mut self, failed: bool, rules: &SessionRules, _: Instant) -> bool {
        self.failures = if failed { self.failures.saturating_add(1) } else { 0 };
        self.failures >= rules.threshold
    }

    fn failures(&self, _: Instant) -> u32 {
        self.failures
    }

    fn is_blank(&self) -> bool {
        self.failures == 0
    }

    fn recovery(rules: &SessionRules) -> Duration {
        rules.recovery
    }
}

/// The number of steps in which the window slides.
const BUCKETS: usize = 10;

/// Measures the failure rate in a sliding time window.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// The start of the first bucket. None before the first call.
    began: Option<Instant>,
    /// The duration of one bucket.
    width: Duration,
    /// The number of the newest bucket, counted from `began`.
    newest: u64,
    buckets: [Bucket; BUCKETS],
}

#[derive(Debug, Default, Clone, Copy)]
struct Bucket {
    calls: u32,
    failures: u32,
}

impl Window {
    /// Returns the number of the bucket that contains `now`.
    fn number(&self, now: Instant) -> u64 {
        let Some(began) = self.began else { return 0 };
        let width = self.width.as_nanos().max(1);
        u64::try_from(now.saturating_duration_since(began).as_nanos() / width).unwrap_or(u64::MAX)
    }

    /// Moves the window forward to `now`, and clears expired buckets.
    fn slide(&mut self, now: Instant) {
        let number = self.number(now);
        // Clear each bucket that was skipped, at most all of them.
        for step in 1..=(number.saturating_sub(self.newest)).min(BUCKETS as u64) {
            self.buckets[((self.newest + step) % BUCKETS as u64) as usize] = Bucket::default();
        }
        self.newest = self.newest.max(number);
    }

    /// Sums up the buckets within the window at `now`.
    fn totals(&self, now: Instant) -> Bucket {
        let oldest = (self.number(now) + 1).saturating_sub(BUCKETS as u64);
        let first = (self.newest + 1).saturating_sub(BUCKETS as u64).max(oldest);
        (first..=self.newest).fold(Bucket::default(), |sum, number| {
            let bucket = self.buckets[(number % BUCKETS as u64) as usize];
            Bucket { calls: sum.calls + bucket.calls, failures: sum.failures + bucket.failures }
        })
    }
}

impl Count for Window {
    type Rules = SkillRules;

    fn count(&mut self, failed: bool, rules: &SkillRules, now: Instant) -> bool {
        let width = rules.window / BUCKETS as u32;
        if self.began.is_none() || self.width != width {
            // This is the first call, or the rules changed and the old buckets have another width.
            *self = Self { began: Some(now), width, ..Self::default() };
        }
        self.slide(now);
        let bucket = &mut self.buckets[(self.newest % BUCKETS as u64) as usize];
        bucket.calls = bucket.calls.saturating_add(1);
        bucket.failures = bucket.failures.saturating_add(u32::from(failed));
        let Bucket { calls, failures } = self.totals(now);
        // A success never opens the circuit, even if it reaches the minimum number of calls.
        failed && calls >= rules.minimum_calls && f64::from(failures) >= rules.failure_rate * f64::from(calls)
    }

    fn failures(&self, now: Instant) -> u32 {
        self.totals(now).failures
    }

    fn is_blank(&self) -> bool {
        self.began.is_none()
    }

    fn recovery(rules: &SkillRules) -> Duration {
        rules.recovery
    }
}
