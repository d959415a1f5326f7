//! The place time of a flow or principal: how long its calls have run in total, including running ones. Pure.

use std::time::Instant;

/// Place time in seconds, which grows while calls run.
#[derive(Debug, Default)]
pub(super) struct PlaceTime {
    /// The usage of ended calls, plus the amount that [`Self::raise`] added.
    ended: f64,
    running: usize,
    /// The sum of the running calls' start times.
    start_sum: f64,
}

impl PlaceTime {
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// Returns the usage until now.
    pub(super) fn used_until(&self, now: Seconds) -> f64 {
        self.ended + (self.running as f64 * now.0 - self.start_sum)
    }

    /// Records that a call starts.
    pub(super) fn start(&mut self, now: Seconds) {
        self.running += 1;
        self.start_sum += now.0;
    }

    /// Records the end of a call that started at `started`.
    pub(super) fn end(&mut self, started: Seconds, now: Seconds) {
        self.running -= 1;
        // Reset the sum, so that rounding errors do not accumulate.
        self.start_sum = if self.running == 0 { 0.0 } else { self.start_sum - started.0 };
        self.ended += now.0 - started.0;
    }

    /// Raises the usage to at least `least`.
    pub(super) fn raise(&mut self, least: f64, now: Seconds) {
        self.ended += (least - self.used_until(now)).max(0.0);
    }
}

/// The time since a gate was created, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seconds(f64);

impl Seconds {
    pub(super) fn between(began: Instant, now: Instant) -> Self {
        Self(now.saturating_duration_since(began).as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_count_while_they_run_and_after() {
        let mut time = PlaceTime::default();
        time.start(Seconds(1.0));
        time.start(Seconds(2.0));
        assert_eq!((time.running(), time.used_until(Seconds(4.0))), (2, 5.0));
        time.end(Seconds(1.0), Seconds(4.0));
        assert_eq!((time.running(), time.used_until(Seconds(6.0))), (1, 7.0));
        time.raise(3.0, Seconds(6.0));
        assert_eq!(time.used_until(Seconds(6.0)), 7.0);
        time.raise(9.0, Seconds(6.0));
        time.end(Seconds(2.0), Seconds(7.0));
        assert_eq!((time.running(), time.used_until(Seconds(100.0))), (0, 10.0));
    }
}
