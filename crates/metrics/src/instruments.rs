//! Counters and histograms that any number of threads share. Reading them is not atomic as a whole: a scrape may see a
//! call in the count of a histogram whose time is not in the sum yet.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::buckets::{BUCKETS, NANOS};
use crate::exemplars::{Exemplar, Exemplars};

/// The longest duration that is told from longer ones, in nanoseconds: four months.
const LONGEST: u64 = 10_000_000_000_000_000;

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// One that starts at zero.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Adds one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds this many.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Durations, counted by length in the buckets of [`crate::buckets::SECONDS`].
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    /// Overflows after five hundred years of observations.
    sum_nanos: AtomicU64,
    exemplars: Exemplars,
}

/// A histogram at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Distribution {
    /// Observations in each bucket alone, the last one without an upper bound.
    pub counts: [u64; BUCKETS],
    /// All observations together, in seconds.
    pub sum: f64,
    /// A recent observation of each bucket.
    pub exemplars: [Option<Exemplar>; BUCKETS],
}

impl Histogram {
    /// Counts one observation.
    pub fn observe(&self, time: Duration) {
        self.count(time);
    }

    /// Counts one observation that belongs to this trace.
    pub fn observe_traced(&self, time: Duration, trace_id: &[u8; 16]) {
        let bucket = self.count(time);
        self.exemplars.note(bucket, time, trace_id);
    }

    fn count(&self, time: Duration) -> usize {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).min(LONGEST);
        // Twelve comparisons without a branch that depends on one: quicker than a search.
        let bucket = NANOS.iter().filter(|bound| nanos > **bound).count();
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
        bucket
    }

    /// Its state now.
    pub fn read(&self) -> Distribution {
        let counts = std::array::from_fn(|at| self.counts[at].load(Ordering::Relaxed));
        let sum = Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)).as_secs_f64();
        Distribution { counts, sum, exemplars: self.exemplars.read() }
    }
}

impl Distribution {
    /// How many observations there are.
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
