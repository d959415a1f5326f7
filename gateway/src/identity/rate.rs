//! Rate limits: a token bucket, stored as the time at which it will be full again (GCRA). Pure: the caller passes
//! the time.

use std::time::Duration;

use openskill_identity::policy::Rate;

const SECOND_NS: f64 = 1e9;

/// A token bucket, initially full. Times are in nanoseconds of its owner's clock.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    /// When the bucket will be full.
    full_at: u64,
    /// When the first token was taken that other gateways have not heard of, and how long all of those take to fill up.
    since: u64,
    debt: u64,
}

/// What was taken from a bucket since other gateways heard of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spent {
    /// When the first token was taken.
    pub(crate) since: Duration,
    /// How long the bucket takes to fill up what was taken.
    pub(crate) debt: Duration,
    /// When the bucket will be full.
    pub(crate) full_at: Duration,
}

impl Bucket {
    /// Takes a token, or returns the time until one is available.
    pub(crate) fn take(&mut self, rate: Rate, now: Duration) -> Result<(), Duration> {
        let now = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
        let token = (SECOND_NS / rate.per_second) as u64;
        // The latest `full_at` at which the bucket still has a token.
        let latest = now.saturating_add(token.saturating_mul(u64::from(rate.burst) - 1));
        if self.full_at > latest {
            return Err(Duration::from_nanos(self.full_at - latest));
        }
        self.full_at = self.full_at.max(now).saturating_add(token);
        if self.debt == 0 {
            self.since = now;
        }
        self.debt = self.debt.saturating_add(token);
        Ok(())
    }

    /// Returns what was taken since this was last called, for other gateways. None if nothing was.
    pub(crate) fn take_spent(&mut self) -> Option<Spent> {
        let [since, debt, full_at] =
            [self.since, std::mem::take(&mut self.debt), self.full_at].map(Duration::from_nanos);
        (!debt.is_zero()).then_some(Spent { since, debt, full_at })
    }

    /// Makes the bucket as empty as the one that all gateways share, which will be full at `full_at` but for what was taken
    /// here in the meantime.
    pub(crate) fn follow(&mut self, full_at: Duration) {
        let shared = u64::try_from(full_at.as_nanos()).unwrap_or(u64::MAX);
        self.full_at = self.full_at.max(shared.saturating_add(self.debt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts the calls that pass if one arrives every `step_us` for `seconds`.
    fn passed(rate: Rate, step_us: u64, seconds: u64) -> u64 {
        let mut bucket = Bucket::default();
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
        let (mut bucket, rate) = (Bucket::default(), Rate { per_second: 2.0, burst: 3 });
        let now = Duration::from_secs(100);
        assert!((0..3).all(|_| bucket.take(rate, now).is_ok()));
        assert_eq!(bucket.take(rate, now), Err(Duration::from_millis(500)));
        assert_eq!(bucket.take(rate, now + Duration::from_millis(400)), Err(Duration::from_millis(100)));
        assert!(bucket.take(rate, now + Duration::from_millis(500)).is_ok());
        assert!(bucket.take(rate, now + Duration::from_millis(500)).is_err());
    }

    #[test]
    fn a_pause_fills_the_bucket_and_no_more_than_that() {
        let (mut bucket, rate) = (Bucket::default(), Rate { per_second: 1.0, burst: 2 });
        assert!(bucket.take(rate, Duration::ZERO).is_ok());
        let later = Duration::from_secs(3600);
        let passed = (0..10).filter(|_| bucket.take(rate, later).is_ok()).count();
        assert_eq!(passed, 2);
    }

    /// Two gateways that get more calls than pass, and exchange what they took every 100 ms with a shared bucket, as the
    /// store has it. Returns how many calls pass in a minute.
    fn passed_at_two(rate: Rate, step_ms: u64) -> u64 {
        let (mut gateways, mut shared, mut count) = ([Bucket::default(), Bucket::default()], Duration::ZERO, 0);
        for at in 0..60_000 {
            let now = Duration::from_millis(at);
            for (number, bucket) in gateways.iter_mut().enumerate() {
                count += u64::from(at % step_ms == 0 && bucket.take(rate, now).is_ok());
                if at % 100 == 50 * number as u64
                    && let Some(spent) = bucket.take_spent()
                {
                    shared = (shared.max(spent.since) + spent.debt).max(spent.full_at);
                    bucket.follow(shared);
                }
            }
        }
        count
    }

    #[test]
    fn two_gateways_together_pass_what_one_alone_does() {
        for (per_second, burst, step_ms) in [(100.0, 1, 1), (100.0, 100, 3), (20.0, 5, 7), (250.0, 20, 2)] {
            let rate = Rate { per_second, burst };
            let (expected, found) = ((per_second * 60.0) as u64 + u64::from(burst), passed_at_two(rate, step_ms));
            assert!(found * 100 >= expected * 97 && found * 100 <= expected * 103, "{rate:?}: {found}, not {expected}");
        }
    }

    #[test]
    fn a_gateway_alone_is_not_charged_for_pauses_between_calls() {
        let (mut bucket, rate) = (Bucket::default(), Rate { per_second: 10.0, burst: 1 });
        let mut shared = Duration::ZERO;
        for round in 0..100 {
            let now = Duration::from_millis(100 * round);
            assert!(bucket.take(rate, now).is_ok(), "{round}");
            let spent = bucket.take_spent().unwrap();
            shared = (shared.max(spent.since) + spent.debt).max(spent.full_at);
            bucket.follow(shared);
            assert_eq!(bucket.take_spent(), None);
        }
    }
}
