//! Keeps the trace of a recent observation for each histogram bucket: a starting point to investigate a bucket.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::buckets::BUCKETS;

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

/// One exemplar for each bucket. `None` before a bucket's first observation.
#[derive(Debug, Default)]
pub struct Exemplars {
    slots: [Slot; BUCKETS],
}

#[derive(Debug, Default)]
struct Slot {
    /// The number of observations of the bucket.
    since: AtomicU64,
    kept: Mutex<Option<Exemplar>>,
}

/// The number of observations from one exemplar of a bucket to the next, starting with the first. Most calls do
/// not pay for the clock and the lock.
const EVERY: u64 = 64;

impl Exemplars {
    pub(crate) fn note(&self, bucket: usize, time: Duration, trace_id: &[u8; 16]) {
        let slot = &self.slots[bucket];
        if !slot.since.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
            return;
        }
        // Skip this observation if another thread writes an exemplar or reads for a scrape.
        if let Some(mut kept) = slot.kept.try_lock() {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let unix_nanos = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
            *kept = Some(Exemplar { trace_id: *trace_id, value: time.as_secs_f64(), unix_nanos });
        }
    }

    pub(crate) fn read(&self) -> [Option<Exemplar>; BUCKETS] {
        std::array::from_fn(|at| *self.slots[at].kept.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bucket_keeps_one_observation_and_replaces_it_now_and_then() {
        let exemplars = Exemplars::default();
        let trace = |number: u64| exemplars.note(3, Duration::from_millis(number), &[number as u8 + 1; 16]);
        let kept = || exemplars.read()[3].map(|it| it.trace_id[0]);
        trace(0);
        assert_eq!(kept(), Some(1));
        (1..EVERY).for_each(trace);
        assert_eq!(kept(), Some(1));
        trace(EVERY);
        assert_eq!(kept(), Some(65));
        assert_eq!(exemplars.read().iter().flatten().count(), 1);
    }
}
