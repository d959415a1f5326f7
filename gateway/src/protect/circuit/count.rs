//! What makes a closed circuit open.

use std::time::{Duration, Instant};

use super::rules::{SessionRules, SkillRules};

/// Counts the calls of a closed circuit.
pub(crate) trait Count: Default {
    /// When it is too much.
    type Rules: Copy;

    /// Counts one call. True if the circuit has to open.
    fn count(&mut self, failed: bool, rules: &Self::Rules, now: Instant) -> bool;

    /// Failures that count now.
    fn failures(&self, now: Instant) -> u32;

    /// Whether it is as if nothing had ever been counted.
    fn is_blank(&self) -> bool;

    /// How long an open circuit stays open.
    fn recovery(rules: &Self::Rules) -> Duration;
}

/// Failures in a row. One success begins anew.
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

/// How finely a window slides: its oldest tenth leaves at once.
const BUCKETS: usize = 10;

/// The share of failures among the calls of the last while.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// When the first bucket began; none before the first call.
    began: Option<Instant>,
    /// How much time one bucket covers.
    width: Duration,
    /// The number of the newest bucket.
    newest: u64,
    buckets: [Bucket; BUCKETS],
}

#[derive(Debug, Default, Clone, Copy)]
struct Bucket {
    calls: u32,
    failures: u32,
}

impl Window {
    /// The number of the bucket that `now` falls in.
    fn number(&self, now: Instant) -> u64 {
        let Some(began) = self.began else { return 0 };
        let width = self.width.as_nanos().max(1);
        u64::try_from(now.saturating_duration_since(began).as_nanos() / width).unwrap_or(u64::MAX)
    }

    /// Moves the window on to `now`.
    fn slide(&mut self, now: Instant) {
        let number = self.number(now);
        // Each bucket that was passed over is empty; more than all of them are all of them.
        for step in 1..=(number.saturating_sub(self.newest)).min(BUCKETS as u64) {
            self.buckets[((self.newest + step) % BUCKETS as u64) as usize] = Bucket::default();
        }
        if number > self.newest + BUCKETS as u64 {
            self.buckets = Default::default();
        }
        self.newest = self.newest.max(number);
    }

    /// What is still within the window at `now`.
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
            // The first call, or the rules changed: what was counted has another width.
            *self = Self { began: Some(now), width, ..Self::default() };
        }
        self.slide(now);
        let bucket = &mut self.buckets[(self.newest % BUCKETS as u64) as usize];
        bucket.calls = bucket.calls.saturating_add(1);
        bucket.failures = bucket.failures.saturating_add(u32::from(failed));
        let Bucket { calls, failures } = self.totals(now);
        // A success opens nothing, though it may be the call that completes the volume.
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
