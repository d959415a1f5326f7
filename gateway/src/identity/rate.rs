//! Rate limits: a token bucket, stored as the time at which it will be full again (GCRA). Pure: the caller passes
//! the time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use openskill_identity::policy::Rate;

const SECOND_NS: f64 = 1e9;

/// A token bucket, initially full.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// When the bucket will be full, in nanoseconds of its owner's clock.
    full_at: AtomicU64,
}

impl Bucket {
    /// Takes a token, or returns the time until one is available.
    pub(crate) fn take(&self, rate: Rate, now: Duration) -> Result<(), Duration> {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let token = (SECOND_NS / rate.per_second) as u64;
        // The latest `full_at` at which the bucket still has a token.
        let latest = now.saturating_add(token.saturating_mul(u64::from(rate.burst) - 1));
        let next = |full_at: u64| (full_at <= latest).then(|| full_at.max(now).saturating_add(token));
        let taken = self.full_at.fetch_update(Ordering::AcqRel, Ordering::Acquire, next);
        taken.map(drop).map_err(|full_at| Duration::from_nanos(full_at - latest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the calls that pass if one arrives every `step_us` for `seconds`.
    fn passed(rate: Rate, step_us: u64, seconds: u64) -> u64 {
        let bucket = Bucket::default();
        let times = (0..seconds * 1_000_000).step_by(step_us as usize);
        times.filter(|at| bucket.take(rate, Duration::from_micros(*at)).is_ok()).count() as u64
    }

    #[test]
    fn over_time_the_rate_is_exact_to_five_percent_however_fast_calls_come() {
        for (per_second, burst) in [(10.0, 1), (10.0, 10), (3.0, 5), (0.5, 1), (250.0, 20)] {
            for step_us in [100, 777, 3_000] {
                let rate = Rate { per_second, burst };
                let expected = (per_second * 60.0) as u64 + u64::from(burst);
                let found = passed(rate, step_us, 60);
                // Calls start only at multiples of the step, so the count may be slightly too low.
                let is_exact = found <= expected + 1 && found * 100 >= expected * 95;
                assert!(is_exact, "{rate:?} every {step_us} us: {found}, not {expected}");
            }
        }
    }

    #[test]
    fn a_burst_passes_at_once_and_the_next_call_learns_how_long_to_wait() {
        let (bucket, rate) = (Bucket::default(), Rate { per_second: 2.0, burst: 3 });
        let now = Duration::from_secs(100);
        assert!((0..3).all(|_| bucket.take(rate, now).is_ok()));
        assert_eq!(bucket.take(rate, now), Err(Duration::from_millis(500)));
        assert_eq!(bucket.take(rate, now + Duration::from_millis(400)), Err(Duration::from_millis(100)));
        assert!(bucket.take(rate, now + Duration::from_millis(500)).is_ok());
        assert!(bucket.take(rate, now + Duration::from_millis(500)).is_err());
    }

    #[test]
    fn a_pause_fills_the_bucket_and_no_more_than_that() {
        let (bucket, rate) = (Bucket::default(), Rate { per_second: 1.0, burst: 2 });
        assert!(bucket.take(rate, Duration::ZERO).is_ok());
        let later = Duration::from_secs(3600);
        let passed = (0..10).filter(|_| bucket.take(rate, later).is_ok()).count();
        assert_eq!(passed, 2);
    }
}
