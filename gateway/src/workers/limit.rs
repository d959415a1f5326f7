//! How many calls a worker is given at once: what it runs, and as many more as wait no longer than they should.
//!
//! Additive increase, multiplicative decrease, on the time that calls waited at the worker for a free place. Not on how
//! long they took: skills differ in that, and one that is slow by nature overloads nobody. So a call is never refused
//! while a worker has a free place. The least wait of a window decides, as in CoDel: a burst makes some calls wait, a
//! queue that stands makes all of them wait.

use std::time::{Duration, Instant};

/// Calls of a window that all waited longer than this waited in a queue that is too long.
const TARGET: Duration = Duration::from_secs(1);

/// How long the waits of calls are looked at together.
const WINDOW: Duration = Duration::from_millis(200);

/// At least, and at most, which is where it begins: multiples of what the worker runs at once.
const LEAST: u32 = 4;
const MOST: u32 = 64;

/// What is kept of the limit when it is too high: the least and the most. Between the two it follows the wait, which is
/// as long as the queue.
const DECREASE: (f64, f64) = (0.2, 0.8);

/// The limit of one worker.
#[derive(Debug)]
pub(crate) struct Limit {
    /// What the worker runs at once.
    capacity: u32,
    current: u32,
    began: Instant,
    /// The least wait of this window; none before its first call.
    least_wait: Option<Duration>,
    /// The most calls at once in this window.
    peak: u32,
    /// When it was last lowered. What calls tell soon after that is still of before.
    lowered: Option<Instant>,
}

impl Limit {
    pub(crate) fn new(capacity: u32, now: Instant) -> Self {
        let capacity = capacity.max(1);
        Self { capacity, current: capacity.saturating_mul(MOST), began: now, least_wait: None, peak: 0, lowered: None }
    }

    pub(crate) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(crate) fn current(&self) -> u32 {
        self.current
    }

    /// A call came back that had waited; `in_flight` were at the worker with it.
    pub(crate) fn observe(&mut self, waited: Duration, in_flight: u32, now: Instant) {
        self.least_wait = Some(self.least_wait.map_or(waited, |least| least.min(waited)));
        self.peak = self.peak.max(in_flight);
        if now.saturating_duration_since(self.began) < WINDOW {
            return;
        }
        if let Some(least) = self.least_wait.filter(|least| *least > TARGET) {
            self.shrink(self.peak, TARGET.as_secs_f64() / least.as_secs_f64(), now);
        } else if self.peak >= self.current - self.current / 8 {
            // Only what is used is known to be good.
            self.set(self.current.saturating_add((self.capacity / 2).max(1)));
        }
        (self.began, self.least_wait, self.peak) = (now, None, 0);
    }

    /// The worker said that it is full, with this many calls there.
    pub(crate) fn refused(&mut self, in_flight: u32, now: Instant) {
        self.shrink(in_flight, DECREASE.1, now);
    }

    /// Keeps a share of what was in use, at most once a window.
    fn shrink(&mut self, in_flight: u32, share: f64, now: Instant) {
        if self.lowered.is_some_and(|lowered| now.saturating_duration_since(lowered) < WINDOW) {
            return;
        }
        self.lowered = Some(now);
        let kept = f64::from(self.current.min(in_flight)) * share.clamp(DECREASE.0, DECREASE.1);
        self.set(kept as u32);
    }

    fn set(&mut self, wanted: u32) {
        let (least, most) = (self.capacity.saturating_mul(LEAST), self.capacity.saturating_mul(MOST));
        self.current = wanted.clamp(least, most);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Windows of calls that wait as in a queue that is served at a steady rate.
    fn settle(rate_per_second: f64, demand: u32) -> u32 {
        let mut now = Instant::now();
        let mut limit = Limit::new(4, now);
        for _ in 0..500 {
            let in_flight = demand.min(limit.current());
            let waiting = in_flight.saturating_sub(limit.capacity());
            let waited = Duration::from_secs_f64(f64::from(waiting) / rate_per_second);
            now += WINDOW;
            limit.observe(waited, in_flight, now);
        }
        limit.current()
    }

    #[test]
    fn it_settles_where_calls_wait_about_as_long_as_they_may() {
        let limit = settle(40.0, 10_000);
        assert!((36..=48).contains(&limit), "{limit}");
    }

    #[test]
    fn a_slow_skill_may_always_use_what_the_worker_runs_and_a_few_waiting_for_each() {
        assert_eq!(settle(0.1, 10_000), 16);
    }

    #[test]
    fn it_does_not_grow_while_it_is_not_used_nor_past_its_bound() {
        let mut limit = Limit::new(4, Instant::now());
        let mut now = Instant::now();
        limit.refused(30, now);
        for _ in 0..50 {
            now += WINDOW;
            limit.observe(Duration::ZERO, 3, now);
        }
        assert_eq!(limit.current(), 24);
        assert_eq!(settle(1e9, 100_000), 256);
    }

    #[test]
    fn a_burst_that_makes_some_calls_wait_lowers_nothing() {
        let mut now = Instant::now();
        let mut limit = Limit::new(4, now);
        for waited in [0, 5, 5, 5] {
            now += WINDOW / 3;
            limit.observe(Duration::from_secs(waited), 10, now);
        }
        assert_eq!(limit.current(), 256);
    }

    #[test]
    fn a_worker_that_says_it_is_full_gets_less() {
        let mut now = Instant::now();
        let mut limit = Limit::new(4, now);
        (0..20).for_each(|_| limit.refused(30, now));
        assert_eq!(limit.current(), 24, "many refusals at once say the same");
        for _ in 0..20 {
            now += WINDOW;
            limit.refused(30, now);
        }
        assert_eq!(limit.current(), 16);
    }
}
