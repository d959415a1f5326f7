//! Counters and histograms shared by many threads, and a recent observation of each bucket of a histogram. A read is
//! not atomic as a whole: a scrape may see a call in a histogram's count before its duration is in the sum.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// The upper bounds of the buckets for durations, in seconds. Formatted whole numbers keep their fraction: some
/// servers would treat `1` and `1.0` as two series.
pub const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0, 15.0, 60.0];

/// The same bounds in nanoseconds.
const NANOS: [u64; 12] = {
    let mut nanos = [0; 12];
    let mut at = 0;
    while at < 12 {
        nanos[at] = (SECONDS[at] * 1e9) as u64;
        at += 1;
    }
    nanos
};

/// The number of buckets of a histogram. The last one has no upper bound.
pub const BUCKETS: usize = SECONDS.len() + 1;

/// The most recently kept observation of a bucket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// The OpenTelemetry trace of the observation.
    pub trace_id: [u8; 16],
    /// The observed duration, in seconds.
    pub value: f64,
    /// The time of the observation, in nanoseconds since 1970.
    pub unix_nanos: u64,
}

/// The trace of a recent observation of a bucket: a starting point to investigate the bucket. `None` before its first
/// observation.
#[derive(Debug, Default)]
struct Slot {
    /// The number of observations of the bucket.
    since: AtomicU64,
    kept: Mutex<Option<Exemplar>>,
}

/// The number of observations from one exemplar of a bucket to the next, starting with the first. Most calls do
/// not pay for the clock and the lock.
const EVERY: u64 = 64;

impl Slot {
    fn note(&self, time: Duration, trace_id: &[u8; 16]) {
        if !self.since.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
            return;
        }
        // Skip this observation if another thread writes an exemplar or reads for a scrape.
        if let Some(mut kept) = self.kept.try_lock() {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let unix_nanos = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
            *kept = Some(Exemplar { trace_id: *trace_id, value: time.as_secs_f64(), unix_nanos });
        }
    }
}

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

/// A histogram of durations, with the buckets of [`SECONDS`].
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BUCKETS],
    /// Overflows after five hundred years of observed time.
    sum_nanos: AtomicU64,
    exemplars: [Slot; BUCKETS],
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
        self.exemplars[self.count(time)].note(time, trace_id);
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
        Distribution { counts, sum, exemplars: std::array::from_fn(|at| *self.exemplars[at].kept.lock()) }
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
    fn the_bounds_in_nanoseconds_are_those_in_seconds() {
        for (seconds, nanos) in SECONDS.iter().zip(NANOS) {
            assert_eq!(Duration::from_secs_f64(*seconds), Duration::from_nanos(nanos));
        }
        assert!(SECONDS.is_sorted());
    }

    #[test]
    fn each_bucket_keeps_one_observation_and_replaces_it_now_and_then() {
        let histogram = Histogram::default();
        let trace = |number: u64| histogram.observe_traced(Duration::from_micros(number), &[number as u8 + 1; 16]);
        let kept = || histogram.read().exemplars[0].map(|it| it.trace_id[0]);
        trace(0);
        assert_eq!(kept(), Some(1));
        (1..EVERY).for_each(trace);
        assert_eq!(kept(), Some(1));
        trace(EVERY);
        assert_eq!(kept(), Some(65));
        assert_eq!(histogram.read().exemplars.iter().flatten().count(), 1);
    }

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
