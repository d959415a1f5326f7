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
    rules: Option<SkillRules>,
    /// The duration of one bucket.
    width: Duration,
    /// The number of the newest bucket, counted from `began`.
    newest: u64,
    buckets: [Bucket; BUCKETS],
    /// The calls that other gateways have not heard of.
    uncounted: Bucket,
    /// The calls of other gateways, and when that is known no longer.
    elsewhere: Option<(Bucket, Instant)>,
}

/// Calls, and how many of them failed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bucket {
    pub(crate) calls: u32,
    pub(crate) failures: u32,
}

/// Calls within a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowCalls {
    pub(crate) bucket: Bucket,
    /// The length of the window.
    pub(crate) window: Duration,
}

impl Bucket {
    fn plus(self, other: Self) -> Self {
        let calls = self.calls.saturating_add(other.calls);
        Self { calls, failures: self.failures.saturating_add(other.failures) }
    }
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
            sum.plus(bucket)
        })
    }

    /// Whether the rate of failures is too high, at all gateways as far as is known.
    pub(crate) fn is_over(&self, rules: &SkillRules, now: Instant) -> bool {
        let elsewhere = self.elsewhere.filter(|(_, until)| now < *until).map(|(bucket, _)| bucket);
        let Bucket { calls, failures } = self.totals(now).plus(elsewhere.unwrap_or_default());
        calls >= rules.minimum_calls && f64::from(failures) >= rules.failure_rate * f64::from(calls)
    }

    /// Returns the calls that were counted since this was last called. None if there are none.
    pub(crate) fn take_uncounted(&mut self) -> Option<WindowCalls> {
        let bucket = std::mem::take(&mut self.uncounted);
        let window = self.rules?.window;
        (bucket.calls > 0).then_some(WindowCalls { bucket, window })
    }

    /// Sets the calls of other gateways, which are forgotten soon. Returns the rules of the last call. None before the first
    /// call.
    pub(crate) fn set_elsewhere(&mut self, elsewhere: Bucket, now: Instant) -> Option<SkillRules> {
        self.elsewhere = Some((elsewhere, now + self.width));
        self.rules
    }
}

impl Count for Window {
    type Rules = SkillRules;

    fn count(&mut self, failed: bool, rules: &SkillRules, now: Instant) -> bool {
        if self.rules != Some(*rules) {
            // This is the first call, or the rules changed and the old buckets may have another width.
            let width = rules.window / BUCKETS as u32;
            *self = Self { began: Some(now), rules: Some(*rules), width, ..Self::default() };
        }
        self.slide(now);
        let call = Bucket { calls: 1, failures: u32::from(failed) };
        let bucket = &mut self.buckets[(self.newest % BUCKETS as u64) as usize];
        *bucket = bucket.plus(call);
        self.uncounted = self.uncounted.plus(call);
        // A success never opens the circuit, even if it reaches the minimum number of calls.
        failed && self.is_over(rules, now)
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
