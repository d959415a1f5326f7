//! The place time of a flow or a principal: how long all its calls have run, including those that still run. Pure.

use std::time::Instant;

/// In seconds.
#[derive(Debug, Default)]
pub(super) struct PlaceTime {
    /// What ended calls used, with what [`Self::raise`] added.
    ended: f64,
    running: usize,
    /// The sum of the times at which the running calls started.
    start_sum: f64,
}

impl PlaceTime {
    pub(super) fn running(&self) -> usize {
        self.running
    }

    /// What was used until now.
    pub(super) fn used(&self, now: Seconds) -> f64 {
        self.ended + (self.running as f64 * now.0 - self.start_sum)
    }

    /// A call starts.
    pub(super) fn start(&mut self, now: Seconds) {
        self.running += 1;
        self.start_sum += now.0;
    }

    /// A call ends that started at some time.
    pub(super) fn end(&mut self, started: Seconds, now: Seconds) {
        self.running -= 1;
        // Without rounding errors that add up.
        self.start_sum = if self.running == 0 { 0.0 } else { self.start_sum - started.0 };
        self.ended += now.0 - started.0;
    }

    /// Raises what was used to `least`, if it is less.
    pub(super) fn raise(&mut self, least: f64, now: Seconds) {
        self.ended += (least - self.used(now)).max(0.0);
    }
}

/// The time since a gate was made.
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
        assert_eq!((time.running(), time.used(Seconds(4.0))), (2, 5.0));
        time.end(Seconds(1.0), Seconds(4.0));
        assert_eq!((time.running(), time.used(Seconds(6.0))), (1, 7.0));
        time.raise(3.0, Seconds(6.0));
        assert_eq!(time.used(Seconds(6.0)), 7.0);
        time.raise(9.0, Seconds(6.0));
        time.end(Seconds(2.0), Seconds(7.0));
        assert_eq!((time.running(), time.used(Seconds(100.0))), (0, 10.0));
    }
}
