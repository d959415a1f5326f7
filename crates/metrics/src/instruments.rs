//! Counters and histograms shared by many threads. A read is not atomic as a whole: a scrape may see a call in a
//! histogram's count before its duration is in the sum.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::buckets::{BUCKETS, NANOS};
use crate::exemplars::{Exemplar, Exemplars};

/// The maximum duration that is recorded, in nanoseconds: about four months. Longer durations are clamped to it.
const LONGEST: u64 = 10_000_000_000_000_000;

/// A number that never decreases.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Creates a counter at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `count`, for several events at once.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Returns the current number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A histogram of durations, with the buckets of [`crate::buckets::SECONDS`].
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    /// Overflows after five hundred years of observed time.
    sum_nanos: AtomicU64,
    exemplars: Exemplars,
}

/// The state of a histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// The number of observations in each bucket, not cumulative. The last bucket has no upper bound.
    pub counts: [u64; BUCKETS],
    /// The sum of all observations, in seconds.
    pub sum: f64,
    /// A recent observation of each bucket.
    pub exemplars: [Option<Exemplar>; BUCKETS],
}

impl Histogram {
    /// Records one observation.
    pub fn observe(&self, time: Duration) {
        self.count(time);
    }

    /// Records one observation that belongs to this trace.
    pub fn observe_traced(&self, time: Duration, trace_id: &[u8; 16]) {
        let bucket = self.count(time);
        self.exemplars.note(bucket, time, trace_id);
    }

    fn count(&self, time: Duration) -> usize {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(LONGEST);
        // Twelve comparisons without data-dependent branches are faster than a search.
        let bucket = NANOS.iter().filter(|bound| nanos > **bound).count();
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
        bucket
    }

    /// Returns the current state.
    pub fn read(&self) -> Distribution {
        let counts = std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed));
        let sum = Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)).as_secs_f64();
        Distribution { counts, sum, exemplars: self.exemplars.read() }
    }
}

impl Distribution {
    /// Returns the number of observations.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_is_in_the_first_bucket_whose_bound_it_does_not_exceed() {
        let histogram = Histogram::default();
        for micros in [0, 1000, 1001, 60_000_000, 60_000_001] {
            histogram.observe(Duration::from_micros(micros));
        }
        let read = histogram.read();
        assert_eq!(read.counts, [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1]);
        assert_eq!(read.count(), 5);
        assert!((read.sum - 120.002_002).abs() < 1e-6, "{}", read.sum);
        histogram.observe(Duration::MAX);
        assert_eq!(histogram.read().counts[BUCKETS - 1], 2);
    }
}
