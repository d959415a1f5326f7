//! The state machine of one circuit. It is told the time and knows no clock.
//!
//! ```text
//!            counted failures            recovery time is over: one call is the probe
//!   Closed ──────────────────> Open ────────────────────────────> HalfOpen
//!     ^                          ^                                   │  │
//!     │                          └───────────── probe failed ────────┘  │
//!     └──────────────────────────────────────── probe succeeded ────────┘
//! ```
//!
//! Each change of state begins a new era. A call belongs to the era it was let through in; what it reports after that era
//! changes nothing: a late success from before the circuit opened does not close it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use openskill_proto::v1::CircuitState;

use super::count::Count;

/// What a refused call hears while a probe is under way, whose end nobody knows.
pub(crate) const PROBE_RETRY: Duration = Duration::from_secs(1);

/// One circuit.
#[derive(Debug)]
pub(crate) struct Breaker<C> {
    state: State,
    era: Era,
    count: C,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    HalfOpen { probing: bool },
}

/// A stretch of time in which a circuit did not change. Its number is unique in the process, so that a pass never fits a
/// circuit that was forgotten and came anew; the first era of every circuit is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Era(u64);

impl Era {
    const FIRST: Self = Self(0);

    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Leave for one call. Given back once, by [`Breaker::report`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    era: Era,
}

impl Pass {
    /// For a circuit that nothing is remembered of.
    pub(crate) const FIRST: Self = Self { era: Era::FIRST };
}

/// A call is let through.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) pass: Pass,
    /// The circuit was open until now.
    pub(crate) now_half_open: bool,
}

/// What became of a call, as far as the skill is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
    /// It says nothing about the skill.
    Ignored,
}

impl<C: Count> Default for Breaker<C> {
    fn default() -> Self {
        Self { state: State::Closed, era: Era::FIRST, count: C::default() }
    }
}

impl<C: Count> Breaker<C> {
    /// Lets a call through, or says how long until one may try.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<Admitted, Duration> {
        let was_open = matches!(self.state, State::Open { .. });
        if let Some(wait) = self.retry_after(now) {
            return Err(wait);
        }
        match self.state {
            State::Closed => {}
            State::Open { .. } => self.enter(State::HalfOpen { probing: true }),
            State::HalfOpen { .. } => self.state = State::HalfOpen { probing: true },
        }
        Ok(Admitted { pass: Pass { era: self.era }, now_half_open: was_open })
    }

    /// Takes a pass back. Gives the new state if it changed.
    pub(crate) fn report(
        &mut self,
        pass: Pass,
        verdict: Verdict,
        rules: &C::Rules,
        now: Instant,
    ) -> Option<CircuitState> {
        if pass.era != self.era {
            return None;
        }
        match (self.state, verdict) {
            (State::Closed, Verdict::Success | Verdict::Failure) => {
                if !self.count.count(verdict == Verdict::Failure, rules, now) {
                    return None;
                }
                self.open(rules, now);
            }
            (State::HalfOpen { .. }, Verdict::Success) => self.close(),
            (State::HalfOpen { .. }, Verdict::Failure) => self.open(rules, now),
            // The next call is the probe.
            (State::HalfOpen { .. }, Verdict::Ignored) => {
                self.state = State::HalfOpen { probing: false };
                return None;
            }
            (State::Closed, Verdict::Ignored) | (State::Open { .. }, _) => return None,
        }
        Some(self.state())
    }

    /// How long until a call may try; none if one may now. Asking changes nothing.
    pub(crate) fn retry_after(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Open { until } => Some(until.saturating_duration_since(now)).filter(|wait| !wait.is_zero()),
            State::HalfOpen { probing: true } => Some(PROBE_RETRY),
            State::Closed | State::HalfOpen { probing: false } => None,
        }
    }

    /// Closes it by hand. False if it was closed.
    pub(crate) fn reset(&mut self) -> bool {
        if self.state == State::Closed {
            self.count = C::default();
            return false;
        }
        self.close();
        true
    }

    pub(crate) fn state(&self) -> CircuitState {
        match self.state {
            State::Closed => CircuitState::Closed,
            State::Open { .. } => CircuitState::Open,
            State::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// Failures that count towards the next opening.
    pub(crate) fn failures(&self, now: Instant) -> u32 {
        self.count.failures(now)
    }

    /// Whether forgetting it would change nothing.
    pub(crate) fn is_blank(&self) -> bool {
        // One that ever changed is kept, so that calls of its earlier eras are known to be late.
        self.era == Era::FIRST && self.count.is_blank()
    }

    fn open(&mut self, rules: &C::Rules, now: Instant) {
        self.enter(State::Open { until: now + C::recovery(rules) });
    }

    fn close(&mut self) {
        self.enter(State::Closed);
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.era = Era::next();
        self.count = C::default();
    }
}
