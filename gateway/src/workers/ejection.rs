//! Outlier ejection: a worker that keeps failing gets no calls for a time, which doubles with each ejection. Pure:
//! the caller passes the time.
//!
//! Only the worker's faults count: failed connections, lost calls, skills that it could not start, missing
//! responses. After the ejection time, one call probes the worker.

use std::time::{Duration, Instant};

/// The number of consecutive failures that eject a worker.
pub(crate) const THRESHOLD: u32 = 5;

/// The initial and the maximum ejection time. The time doubles with each ejection.
pub(crate) const EJECTION_TIME: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long a probe blocks other calls. Bounded, because a probe may be a long call.
const PROBE: Duration = Duration::from_secs(2);

/// The ejection state of a worker.
#[derive(Debug, Default)]
pub(crate) struct Ejection {
    state: State,
    /// Counts changes of state. A call counts only in the epoch in which it began.
    epoch: u64,
    /// The number of ejections since the worker last stayed healthy for the maximum ejection time.
    ejections: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The worker gets calls.
    Active {
        failures: u32,
        /// When its last ejection ended. None if it was never ejected.
        since: Option<Instant>,
    },
    Ejected {
        until: Instant,
    },
    /// One call probes the worker.
    Probing {
        until: Instant,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::Active { failures: 0, since: None }
    }
}

/// How the end of a call counts for its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
    /// Does not count, for example because the call was cancelled.
    Ignored,
}

impl Ejection {
    /// Returns the initial state for a new process of the worker.
    pub(crate) fn reset(&self) -> Self {
        Self { epoch: self.epoch + 1, ..Self::default() }
    }

    /// Whether the worker accepts calls.
    pub(crate) fn admits(&self, now: Instant) -> bool {
        self.remaining(now).is_none()
    }

    /// Returns how long the worker stays ejected. None if it accepts calls.
    pub(crate) fn remaining(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Ejected { until } | State::Probing { until } if until > now => Some(until - now),
            _ => None,
        }
    }

    /// Whether the worker accepts a call. If the call is a probe, it claims the worker: no other call is accepted
    /// until the probe ends, or has run for [`PROBE`].
    pub(crate) fn claim(&mut self, now: Instant) -> bool {
        let admits = self.admits(now);
        if admits && !matches!(self.state, State::Active { .. }) {
            self.enter(State::Probing { until: now + PROBE });
        }
        admits
    }

    /// Whether a probe is in flight.
    pub(crate) fn is_probed(&self) -> bool {
        matches!(self.state, State::Probing { .. })
    }

    /// Counts a call that is sent to the worker. Returns its epoch.
    pub(crate) fn begin(&mut self, now: Instant) -> u64 {
        // A call that did not claim the worker becomes the probe.
        self.claim(now);
        self.epoch
    }

    /// Whether the failure of a call of this epoch ejects the worker.
    pub(crate) fn is_due(&self, epoch: u64) -> bool {
        let is_last = |failures: u32| failures.saturating_add(1) >= THRESHOLD;
        epoch == self.epoch && matches!(self.state, State::Active { failures, .. } if is_last(failures))
    }

    /// Reports how a call ended. `may_eject`: enough other workers remain. Returns whether this ejects the worker.
    pub(crate) fn end(&mut self, epoch: u64, verdict: Verdict, now: Instant, may_eject: bool) -> bool {
        if epoch != self.epoch {
            return false;
        }
        match (self.state, verdict) {
            (State::Active { since, .. }, Verdict::Success) => {
                if since.is_some_and(|since| now.saturating_duration_since(since) >= EJECTION_TIME.1) {
                    self.ejections = 0;
                }
                self.state = State::Active { failures: 0, since };
                false
            }
            (State::Active { failures, since }, Verdict::Failure) => {
                let failures = failures.saturating_add(1);
                self.state = State::Active { failures, since };
                failures >= THRESHOLD && may_eject && self.eject(now)
            }
            (State::Probing { .. }, Verdict::Success) => {
                self.enter(State::Active { failures: 0, since: Some(now) });
                false
            }
            (State::Probing { .. }, Verdict::Failure) => self.eject(now),
            // Let the next call be the probe.
            (State::Probing { .. }, Verdict::Ignored) => {
                self.enter(State::Ejected { until: now });
                false
            }
            (State::Ejected { .. }, _) | (State::Active { .. }, Verdict::Ignored) => false,
        }
    }

    fn eject(&mut self, now: Instant) -> bool {
        let time = EJECTION_TIME.0.saturating_mul(1 << self.ejections.min(16)).min(EJECTION_TIME.1);
        self.ejections = self.ejections.saturating_add(1);
        self.enter(State::Ejected { until: now + time });
        true
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes one call that ends with this verdict.
    fn call(ejection: &mut Ejection, verdict: Verdict, now: Instant) -> bool {
        let epoch = ejection.begin(now);
        ejection.end(epoch, verdict, now, true)
    }

    /// Fails calls until the worker is ejected. Returns the ejection time.
    fn eject(ejection: &mut Ejection, now: Instant) -> Duration {
        for _ in 0..THRESHOLD {
            if call(ejection, Verdict::Failure, now) {
                return ejection.remaining(now).unwrap();
            }
        }
        panic!("it is not ejected");
    }

    #[test]
    fn consecutive_failures_eject_it_for_longer_each_time_up_to_a_cap() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        let mut times = Vec::new();
        for _ in 0..7 {
            let time = eject(&mut ejection, now);
            assert!(!ejection.admits(now) && ejection.admits(now + time));
            times.push(time.as_secs());
            now += time;
        }
        assert_eq!(times, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_success_resets_the_count() {
        let (mut ejection, now) = (Ejection::default(), Instant::now());
        for _ in 0..THRESHOLD * 3 {
            assert!(!call(&mut ejection, Verdict::Failure, now));
            call(&mut ejection, Verdict::Success, now);
        }
    }

    #[test]
    fn one_probe_decides() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        now += eject(&mut ejection, now);
        let epoch = ejection.begin(now);
        assert!(!ejection.admits(now), "a second call must not probe it too");
        ejection.end(epoch, Verdict::Ignored, now, true);
        assert!(ejection.admits(now), "the probe said nothing, so the next call is the probe");
        call(&mut ejection, Verdict::Success, now);
        assert!(ejection.admits(now) && ejection.admits(now));
    }

    #[test]
    fn a_long_probe_does_not_keep_others_away() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        now += eject(&mut ejection, now);
        let long = ejection.begin(now);
        now += PROBE;
        assert!(ejection.admits(now));
        call(&mut ejection, Verdict::Success, now);
        assert!(!ejection.end(long, Verdict::Failure, now, true), "it belongs to an earlier epoch");
        assert!(ejection.admits(now));
    }

    #[test]
    fn calls_from_before_the_ejection_do_not_decide_the_probe() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        let before: Vec<_> = (0..100).map(|_| ejection.begin(now)).collect();
        now += eject(&mut ejection, now);
        let epoch = ejection.begin(now);
        assert!(!before.into_iter().any(|it| ejection.end(it, Verdict::Failure, now, true)));
        ejection.end(epoch, Verdict::Success, now, true);
        assert!(ejection.admits(now));
    }

    #[test]
    fn doing_well_for_a_while_resets_the_ejection_time() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        for _ in 0..4 {
            now += eject(&mut ejection, now);
        }
        call(&mut ejection, Verdict::Success, now);
        now += EJECTION_TIME.1;
        call(&mut ejection, Verdict::Success, now);
        assert_eq!(eject(&mut ejection, now), EJECTION_TIME.0);
    }

    #[test]
    fn the_last_workers_are_never_ejected() {
        let (mut ejection, now) = (Ejection::default(), Instant::now());
        for _ in 0..THRESHOLD * 2 {
            let epoch = ejection.begin(now);
            assert!(!ejection.end(epoch, Verdict::Failure, now, false));
        }
        assert!(ejection.admits(now));
    }
}
