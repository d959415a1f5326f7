//! Leaving a worker out that keeps failing, for longer each time. A state machine that is told the time.
//!
//! Only what is the worker's own doing counts: connections that fail, calls it lost, skills it could not start, answers
//! that never came. When the time is over one call tries it; that call's end decides.

use std::time::{Duration, Instant};

/// So many failures in a row.
pub(crate) const THRESHOLD: u32 = 5;

/// How long it is left out: the first time, and at most. Each time is twice the one before.
pub(crate) const TIMES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// How long one call tries a worker before another one may: the first may be a long one.
const TRIAL: Duration = Duration::from_secs(2);

/// What a worker's record says.
#[derive(Debug, Default)]
pub(crate) struct Ejection {
    state: State,
    /// Counts the changes of state. A call speaks for the stretch of time it began in, and for no other.
    era: u64,
    /// How often it was left out since it last did well for a while.
    ejections: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It takes calls.
    In {
        failures: u32,
        /// When it was let in again, if it ever was out.
        since: Option<Instant>,
    },
    Out {
        until: Instant,
    },
    /// One call tries it.
    Trying {
        until: Instant,
    },
}

impl Default for State {
    fn default() -> Self {
        Self::In { failures: 0, since: None }
    }
}

/// How one call went at a worker, as far as the worker is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    Good,
    Bad,
    /// It says nothing about the worker: the call was dropped, say.
    Unknown,
}

/// When a call began at a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Era(u64);

impl Ejection {
    /// The record of a process that took another one's place.
    pub(crate) fn anew(&self) -> Self {
        Self { era: self.era + 1, ..Self::default() }
    }

    /// Whether calls may go there.
    pub(crate) fn is_in(&self, now: Instant) -> bool {
        match self.state {
            State::In { .. } => true,
            State::Out { until } | State::Trying { until } => until <= now,
        }
    }

    /// How long it stays out; none if it is in, or may be tried.
    pub(crate) fn out_for(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Out { until } | State::Trying { until } if until > now => Some(until - now),
            _ => None,
        }
    }

    /// Whether a call may go there. The one that tries it again claims it: no other may go until that is over.
    pub(crate) fn claim(&mut self, now: Instant) -> bool {
        match self.state {
            State::In { .. } => true,
            State::Out { until } | State::Trying { until } if until <= now => {
                self.enter(State::Trying { until: now + TRIAL });
                true
            }
            State::Out { .. } | State::Trying { .. } => false,
        }
    }

    /// Whether a call tries it now.
    pub(crate) fn is_tried(&self) -> bool {
        matches!(self.state, State::Trying { .. })
    }

    /// A call goes there.
    pub(crate) fn begin(&mut self, now: Instant) -> Era {
        // One that nobody claimed is its own trial.
        self.claim(now);
        Era(self.era)
    }

    /// Whether a call that came back like this would put it out.
    pub(crate) fn is_due(&self, era: Era, conduct: Conduct) -> bool {
        let one_more = |failures: u32| failures.saturating_add(1) >= THRESHOLD;
        era == Era(self.era)
            && conduct == Conduct::Bad
            && matches!(self.state, State::In { failures, .. } if one_more(failures))
    }

    /// A call came back. `may_eject` says whether enough others are left. True if it is out from now on.
    pub(crate) fn end(&mut self, era: Era, conduct: Conduct, now: Instant, may_eject: bool) -> bool {
        if era != Era(self.era) {
            return false;
        }
        match (self.state, conduct) {
            (State::In { since, .. }, Conduct::Good) => {
                if since.is_some_and(|since| now.saturating_duration_since(since) >= TIMES.1) {
                    self.ejections = 0;
                }
                self.state = State::In { failures: 0, since };
                false
            }
            (State::In { failures, since }, Conduct::Bad) => {
                let failures = failures.saturating_add(1);
                self.state = State::In { failures, since };
                failures >= THRESHOLD && may_eject && self.eject(now)
            }
            (State::Trying { .. }, Conduct::Good) => {
                self.enter(State::In { failures: 0, since: Some(now) });
                false
            }
            (State::Trying { .. }, Conduct::Bad) => self.eject(now),
            // The next call tries it.
            (State::Trying { .. }, Conduct::Unknown) => {
                self.enter(State::Out { until: now });
                false
            }
            (State::Out { .. }, _) | (State::In { .. }, Conduct::Unknown) => false,
        }
    }

    fn eject(&mut self, now: Instant) -> bool {
        let time = TIMES.0.saturating_mul(1 << self.ejections.min(16)).min(TIMES.1);
        self.ejections = self.ejections.saturating_add(1);
        self.enter(State::Out { until: now + time });
        true
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.era += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One call there and back.
    fn call(ejection: &mut Ejection, conduct: Conduct, now: Instant) -> bool {
        let era = ejection.begin(now);
        ejection.end(era, conduct, now, true)
    }

    /// Fails it until it is out; gives for how long.
    fn eject(ejection: &mut Ejection, now: Instant) -> Duration {
        for _ in 0..THRESHOLD {
            if call(ejection, Conduct::Bad, now) {
                return ejection.out_for(now).unwrap();
            }
        }
        panic!("it is still in");
    }

    #[test]
    fn it_is_out_after_failures_in_a_row_and_longer_each_time_up_to_a_cap() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        let mut times = Vec::new();
        for _ in 0..7 {
            let time = eject(&mut ejection, now);
            assert!(!ejection.is_in(now) && ejection.is_in(now + time));
            times.push(time.as_secs());
            now += time;
        }
        assert_eq!(times, [1, 2, 4, 8, 16, 30, 30]);
    }

    #[test]
    fn a_success_between_failures_begins_anew() {
        let (mut ejection, now) = (Ejection::default(), Instant::now());
        for _ in 0..THRESHOLD * 3 {
            assert!(!call(&mut ejection, Conduct::Bad, now));
            call(&mut ejection, Conduct::Good, now);
        }
    }

    #[test]
    fn one_call_tries_it_and_decides() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        now += eject(&mut ejection, now);
        let era = ejection.begin(now);
        assert!(!ejection.is_in(now), "a second call must not go there too");
        ejection.end(era, Conduct::Unknown, now, true);
        assert!(ejection.is_in(now), "the call said nothing, so the next one tries");
        call(&mut ejection, Conduct::Good, now);
        assert!(ejection.is_in(now) && ejection.is_in(now));
    }

    #[test]
    fn a_call_that_tries_it_for_long_does_not_keep_others_away() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        now += eject(&mut ejection, now);
        let long = ejection.begin(now);
        now += TRIAL;
        assert!(ejection.is_in(now));
        call(&mut ejection, Conduct::Good, now);
        assert!(!ejection.end(long, Conduct::Bad, now, true), "it belongs to the past");
        assert!(ejection.is_in(now));
    }

    #[test]
    fn calls_from_before_it_was_out_do_not_speak_for_the_one_that_tries_it() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        let before: Vec<_> = (0..100).map(|_| ejection.begin(now)).collect();
        now += eject(&mut ejection, now);
        let era = ejection.begin(now);
        assert!(!before.into_iter().any(|it| ejection.end(it, Conduct::Bad, now, true)));
        ejection.end(era, Conduct::Good, now, true);
        assert!(ejection.is_in(now));
    }

    #[test]
    fn doing_well_for_a_while_is_rewarded() {
        let (mut ejection, mut now) = (Ejection::default(), Instant::now());
        for _ in 0..4 {
            now += eject(&mut ejection, now);
        }
        call(&mut ejection, Conduct::Good, now);
        now += TIMES.1;
        call(&mut ejection, Conduct::Good, now);
        assert_eq!(eject(&mut ejection, now), TIMES.0);
    }

    #[test]
    fn the_last_ones_are_never_left_out() {
        let (mut ejection, now) = (Ejection::default(), Instant::now());
        for _ in 0..THRESHOLD * 2 {
            let era = ejection.begin(now);
            assert!(!ejection.end(era, Conduct::Bad, now, false));
        }
        assert!(ejection.is_in(now));
    }
}
