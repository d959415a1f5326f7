//! Converts between the store's time and that of this process.

use std::time::{Duration, Instant};

use openskill_store::Store;

/// The furthest that a time in the store can be from now: a year.
const MAX: Duration = Duration::from_secs(366 * 24 * 3600);

/// One moment, by both clocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedTime {
    pub(super) instant: Instant,
    store_us: i64,
}

impl SharedTime {
    pub(super) fn now(store: &Store) -> Self {
        Self { instant: Instant::now(), store_us: store.now_us() }
    }

    /// The store's time at an instant, in microseconds since 1970.
    pub(super) fn store_us(&self, at: Instant) -> i64 {
        let micros = |it: Duration| i64::try_from(it.min(MAX).as_micros()).unwrap_or_default();
        let (after, before) = (at.saturating_duration_since(self.instant), self.instant.saturating_duration_since(at));
        self.store_us.saturating_add(micros(after)).saturating_sub(micros(before))
    }

    /// The same in milliseconds, rounded up.
    pub(super) fn store_ms(&self, at: Instant) -> i64 {
        self.store_us(at).saturating_add(999) / 1000
    }

    /// The instant at a time of the store. Now if that has passed.
    pub(super) fn instant_at_us(&self, time_us: i64) -> Instant {
        let ahead = u64::try_from(time_us.saturating_sub(self.store_us)).unwrap_or_default();
        self.instant + Duration::from_micros(ahead).min(MAX)
    }

    pub(super) fn instant_at_ms(&self, time_ms: i64) -> Instant {
        self.instant_at_us(time_ms.saturating_mul(1000))
    }
}
