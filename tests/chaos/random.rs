//! Random numbers from a seed: the same seed gives the same run.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};

#[derive(Debug)]
pub(crate) struct Random(StdRng);

impl Random {
    /// A stream of its own for each purpose, so that one more number here changes nothing there.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        let mut key = <StdRng as rand::SeedableRng>::Seed::default();
        key[..8].copy_from_slice(&seed.to_le_bytes());
        for (index, byte) in purpose.bytes().enumerate() {
            key[8 + index % 24] ^= byte;
        }
        Self(StdRng::from_seed(key))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// From 0 up to, but not including, 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// From 0 up to, but not including, `limit`.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0.random_range(0..limit.max(1))
    }

    /// Between two numbers, each order of magnitude equally likely.
    pub(crate) fn log_uniform(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    /// The time to the next arrival of a Poisson process.
    pub(crate) fn arrival(&mut self, per_second: f64) -> Duration {
        Duration::from_secs_f64(-(1.0 - self.unit()).ln() / per_second)
    }

    /// `count` moments within a time, one somewhere in each of its `count` equal parts.
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
