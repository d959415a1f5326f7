//! A worker's adaptive concurrency limit: its slots, plus as many queued calls as start in time.
//!
//! The limit increases additively and decreases multiplicatively, based on how long calls queue at the worker for a
//! slot. It does not depend on latency, which differs between skills: a slow skill does not overload a worker.
//! Therefore no call is refused while a worker has a free slot. As in CoDel, the shortest queueing time of a window
//! decides: a burst makes some calls queue, a standing queue makes all calls queue.

use std::time::{Duration, Instant};

/// The maximum queueing time. If all calls of a window queued longer, the queue is too long.
const TARGET: Duration = Duration::from_secs(1);

/// The length of a window.
const WINDOW: Duration = Duration::from_millis(200);

/// The minimum and the maximum limit, as multiples of the worker's slots. The limit starts at the maximum.
const LEAST: u32 = 4;
const MOST: u32 = 64;

/// The minimum and the maximum fraction of the limit that a decrease keeps. Within these bounds, it depends on the
/// queueing time.
const DECREASE: (f64, f64) = (0.2, 0.8);

/// The concurrency limit of one worker.
#[derive(Debug)]
pub(crate) struct Limit {
    /// The number of slots that the worker has.
    pub(super) capacity: u32,
    pub(super) current: u32,
    began: Instant,
    /// The shortest queueing time in this window. None before its first call.
    least_queued: Option<Duration>,
    /// The maximum number of calls in flight in this window.
    peak: u32,
    /// When it was last decreased. Calls that end soon afterwards queued before that.
    lowered: Option<Instant>,
}

impl Limit {
    pub(crate) fn new(capacity: u32, now: Instant) -> Self {
        let capacity = capacity.max(1);
        Self {
            capacity,
            current: capacity.saturating_mul(MOST),
            began: now,
            least_queued: None,
            peak: 0,
            lowered: None,
        }
    }

    /// Records the end of a call that queued for `queued`, with `in_flight` calls at the worker.
    pub(crate) fn observe(&mut self, queued: Duration, in_flight: u32, now: Instant) {
        self.least_queued = Some(self.least_queued.map_or(queued, |least| least.min(queued)));
        self.peak = self.peak.max(in_flight);
        if now.saturating_duration_since(self.began) < WINDOW {
            return;
        }
        if let Some(least) = self.least_queued.filter(|least| *least > TARGET) {
            self.shrink(self.peak, TARGET.as_secs_f64() / least.as_secs_f64(), now);
        } else if self.peak >= self.current - self.current / 8 {
            // Raise the limit only if it was fully used: otherwise it is not known to be good.
            self.set(self.current.saturating_add((self.capacity / 2).max(1)));
        }
        (self.began, self.least_queued, self.peak) = (now, None, 0);
    }

    /// Records that the overloaded worker refused a call, with this many calls in flight there.
    pub(crate) fn observe_refusal(&mut self, in_flight: u32, now: Instant) {
        self.shrink(in_flight, DECREASE.1, now);
    }

    /// Lowers the limit to a fraction of the calls in flight, at most once per window.
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

    /// Simulates windows of calls at a worker with a steady rate.
    fn settle(rate_per_second: f64, demand: u32) -> u32 {
        let mut now = Instant::now();
        let mut limit = Limit::new(4, now);
        for _ in 0..500 {
            let in_flight = demand.min(limit.current);
            let waiting = in_flight.saturating_sub(limit.capacity);
            let waited = Duration::from_secs_f64(f64::from(waiting) / rate_per_second);
            now += WINDOW;
            limit.observe(waited, in_flight, now);
        }
        limit.current
    }

    #[test]
    fn it_settles_where_calls_queue_for_about_the_target() {
        let limit = settle(40.0, 10_000);
        assert!((36..=48).contains(&limit), "{limit}");
    }

    #[test]
    fn a_slow_skill_always_gets_all_slots_and_a_short_queue() {
        assert_eq!(settle(0.1, 10_000), 16);
    }

    #[test]
    fn it_grows_only_while_it_is_used_and_up_to_its_bound() {
        let mut limit = Limit::new(4, Instant::now());
        let mut now = Instant::now();
        limit.observe_refusal(30, now);
        for _ in 0..50 {
            now += WINDOW;
            limit.observe(Duration::ZERO, 3, now);
        }
        assert_eq!(limit.current, 24);
        assert_eq!(settle(1e9, 100_000), 256);
    }

    #[test]
    fn a_burst_that_makes_some_calls_queue_decreases_nothing() {
        let mut now = Instant::now();
        let mut limit = Limit::new(4, now);
        for waited in [0, 5, 5, 5] {
            now += WINDOW / 3;
            limit.observe(Duration::from_secs(waited), 10, now);
        }
        assert_eq!(limit.current, 256);
    }

    #[test]
    fn an_overloaded_worker_gets_fewer_calls() {
        let mut now = Instant::now();
        let mut limit = Limit::new(4, now);
        (0..20).for_each(|_| limit.observe_refusal(30, now));
        assert_eq!(limit.current, 24, "refusals within one window count once");
        for _ in 0..20 {
            now += WINDOW;
            limit.observe_refusal(30, now);
        }
        assert_eq!(limit.current, 16);
    }
}
