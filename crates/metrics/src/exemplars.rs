//! The trace of a recent observation in each bucket of a histogram: where to look when a bucket is a surprise.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::buckets::BUCKETS;

/// One observation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exemplar {
    /// The OpenTelemetry trace that it belongs to.
    pub trace_id: [u8; 16],
    /// How long it took, in seconds.
    pub value: f64,
    /// When it was, in nanoseconds since 1970.
    pub unix_nanos: u64,
}

/// An exemplar for each bucket, none before its first observation.
#[derive(Debug, Default)]
pub struct Exemplars {
    slots: [Slot; BUCKETS],
}

#[derive(Debug, Default)]
struct Slot {
    /// How many observations there were since the exemplar was replaced.
    since: AtomicU64,
    kept: Mutex<Option<Exemplar>>,
}

/// Replaced with the first observation of each bucket, and with every so many after that: a call is not to pay for the
/// clock and for a lock.
const EVERY: u64 = 64;

impl Exemplars {
    pub(crate) fn note(&self, bucket: usize, time: Duration, trace_id: &[u8; 16]) {
        let slot = &self.slots[bucket];
        if !slot.since.fetch_add(1, Ordering::Relaxed).is_multiple_of(EVERY) {
            return;
        }
        // Another thread writes one, or a scrape reads it: theirs will do.
        if let Ok(mut kept) = slot.kept.try_lock() {
            let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            let unix_nanos = u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX);
            *kept = Some(Exemplar { trace_id: *trace_id, value: time.as_secs_f64(), unix_nanos });
        }
    }

    pub(crate) fn read(&self) -> [Option<Exemplar>; BUCKETS] {
        std::array::from_fn(|at| self.slots[at].kept.lock().ok().and_then(|kept| *kept))
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
