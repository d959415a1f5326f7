//! The latency of one skill's calls at one worker, as a peak EWMA: a slow call counts in full at once, and decays
//! over time. Pure: the caller passes the time.
//!
//! Measured per skill: a worker is not slow just because it runs slow skills.
//!
//! The rule is that of Finagle's `PeakEwma` load metric.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The time constant. After this time, an observation has about a third of its weight.
const DECAY: Duration = Duration::from_secs(10);

/// The latency, which the shards share. None before the first call.
#[derive(Debug, Default)]
pub(crate) struct Latency(Mutex<Option<Average>>);

#[derive(Debug, Clone, Copy)]
struct Average {
    micros: f64,
    at: Instant,
    /// A plain moving average of the run time, without queueing.
    run: Duration,
}

impl Average {
    /// Decays towards the typical run time, never to zero: a worker that was idle is not infinitely fast.
    fn decay(self, now: Instant) -> f64 {
        let age = now.saturating_duration_since(self.at).as_secs_f64();
        let typical = (self.run.as_micros() as f64).min(self.micros);
        typical + (self.micros - typical) * (-age / DECAY.as_secs_f64()).exp()
    }
}

impl Latency {
    /// Records a call that took `took`, of which it ran for `ran`.
    pub(crate) fn observe(&self, took: Duration, ran: Duration, now: Instant) {
        let took = took.as_micros() as f64;
        let mut average = self.0.lock();
        let micros = match *average {
            Some(before) => {
                let age = now.saturating_duration_since(before.at).as_secs_f64();
                let weight = (-age / DECAY.as_secs_f64()).exp();
                took.max(before.micros * weight + took * (1.0 - weight))
            }
            None => took,
        };
        let run = average.map_or(ran, |before| (before.run * 7 + ran) / 8);
        *average = Some(Average { micros, at: now, run });
    }

    /// Records a call that failed after at least `took`. A fast failure does not lower the average.
    pub(crate) fn observe_failure(&self, took: Duration, now: Instant) {
        let mut average = self.0.lock();
        if let Some(average) = &mut *average {
            let micros = average.decay(now).max(took.as_micros() as f64);
            *average = Average { micros, at: now, run: average.run };
        }
    }

    /// The latency in microseconds. None before the first call.
    pub(crate) fn read(&self, now: Instant) -> Option<f64> {
        self.0.lock().map(|average| average.decay(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_counts_at_once_and_decays_to_the_typical_time() {
        let (latency, now) = (Latency::default(), Instant::now());
        assert_eq!(latency.read(now), None);
        let millis = Duration::from_millis;
        latency.observe(millis(1), millis(1), now);
        latency.observe(millis(100), millis(1), now);
        assert_eq!(latency.read(now), Some(100_000.0));
        let faded = latency.read(now + Duration::from_secs(20)).unwrap();
        assert!((10_000.0..20_000.0).contains(&faded), "{faded}");
        assert!(latency.read(now + Duration::from_secs(3600)).unwrap() >= 1000.0);
    }

    #[test]
    fn fast_failures_do_not_lower_the_latency_and_hanging_raises_it() {
        let (latency, now) = (Latency::default(), Instant::now());
        latency.observe(Duration::from_millis(50), Duration::from_millis(50), now);
        latency.observe_failure(Duration::from_millis(1), now);
        assert_eq!(latency.read(now), Some(50_000.0));
        latency.observe_failure(Duration::from_secs(5), now);
        assert_eq!(latency.read(now), Some(5_000_000.0));
    }
}
