//! Random numbers from a seed: the same run again from the same number.

use std::time::Duration;

/// Splitmix64. <https://prng.di.unimi.it/splitmix64.c>
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// A stream of its own for each purpose, so that one more number here changes nothing there.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        let mixed = purpose.bytes().fold(seed, |state, byte| Self(state ^ u64::from(byte)).next());
        Self(mixed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, and not, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 up to, and not, `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    /// Between two numbers, each order of magnitude as likely as any other.
    pub(crate) fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// The time to the next arrival of a Poisson process.
    pub(crate) fn arrival(&mut self, per_second: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.unit()).ln() / per_second)
    }

    /// `count` moments spread over `within`, one somewhere in each equal part of it.
    pub(crate) fn moments(&mut self, count: usize, within: Duration) -> Vec<Duration> {
        let part = within.as_secs_f64() / count.max(1) as f64;
        (0..count).map(|number| Duration::from_secs_f64((number as f64 + self.unit()) * part)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_and_a_purpose_give_the_same_numbers_again() {
        let numbers = |seed, purpose| {
            let mut random = Random::new(seed, purpose);
            [random.next(), random.next()]
        };
        assert_eq!(numbers(1, "load"), numbers(1, "load"));
        assert_ne!(numbers(1, "load"), numbers(2, "load"));
        assert_ne!(numbers(1, "load"), numbers(1, "faults"));
    }

    #[test]
    fn numbers_stay_within_their_bounds_and_spread_over_them() {
        let mut random = Random::new(7, "test");
        let found: Vec<_> = (0..1000).map(|_| random.log_uniform(1.0, 5000.0)).collect();
        assert!(found.iter().all(|it| (1.0..5000.0).contains(it)));
        assert!(found.iter().filter(|it| **it < 70.0).count().abs_diff(500) < 100);
        let moments = random.moments(10, Duration::from_secs(10));
        assert!(moments.is_sorted() && moments.iter().all(|it| *it < Duration::from_secs(10)));
    }
}
