//! The state machine of one circuit breaker. Pure: the caller passes the time.
//!
//! ```text
//!            failures reach the threshold  recovery timeout passed: one call is the probe
//!   Closed ──────────────────> Open ────────────────────────────> HalfOpen
//!     ^                          ^                                   │  │
//!     │                          └───────────── probe failed ────────┘  │
//!     └──────────────────────────────────────── probe succeeded ────────┘
//! ```
//!
//! Each change of state begins a new epoch. A call belongs to the epoch in which it was admitted. A report in a
//! later epoch changes nothing: a late success from before the circuit opened does not close it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use openskill_proto::v1::CircuitState;

use super::count::Count;

/// The retry delay while a probe is in flight, because its end is unknown.
pub(crate) const PROBE_RETRY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Breaker<C> {
    state: State,
    epoch: u64,
    count: C,
    /// The number of failures at which it last opened from closed, for display.
    opened_by: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    HalfOpen { probing: bool },
}

/// The epoch in which every circuit starts.
const FIRST_EPOCH: u64 = 0;

/// Admits one call. [`Breaker::report`] takes it back. Contains the epoch of the circuit.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pass(u64);

impl Pass {
    /// The pass of a circuit that has no state yet.
    pub(crate) const FIRST: Self = Self(FIRST_EPOCH);
}

/// How the end of a call counts for its skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
    /// Does not count: the caller's mistake, a cancellation, or a worker's fault.
    Ignored,
}

impl<C: Count> Default for Breaker<C> {
    fn default() -> Self {
        Self { state: State::Closed, epoch: FIRST_EPOCH, count: C::default(), opened_by: 0 }
    }
}

impl<C: Count> Breaker<C> {
    /// Admits a call, or returns how long it should wait.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<Pass, Duration> {
        if let Some(wait) = self.retry_after(now) {
            return Err(wait);
        }
        match self.state {
            State::Closed => {}
            State::Open { .. } => self.enter(State::HalfOpen { probing: true }),
            State::HalfOpen { .. } => self.state = State::HalfOpen { probing: true },
        }
        Ok(Pass(self.epoch))
    }

    /// Reports how an admitted call ended. Returns the new state if it changed.
    pub(crate) fn report(
        &mut self,
        pass: Pass,
        verdict: Verdict,
        rules: &C::Rules,
        now: Instant,
    ) -> Option<CircuitState> {
        if pass.0 != self.epoch {
            return None;
        }
        match (self.state, verdict) {
            (State::Closed, Verdict::Success | Verdict::Failure) => {
                if !self.count.count(verdict == Verdict::Failure, rules, now) {
                    return None;
                }
                self.open(rules, now);
            }
            (State::HalfOpen { .. }, Verdict::Success) => self.enter(State::Closed),
            (State::HalfOpen { .. }, Verdict::Failure) => self.open(rules, now),
            // Let the next call be the probe.
            (State::HalfOpen { .. }, Verdict::Ignored) => {
                self.state = State::HalfOpen { probing: false };
                return None;
            }
            (State::Closed, Verdict::Ignored) | (State::Open { .. }, _) => return None,
        }
        Some(self.state())
    }

    /// Returns how long until a call would be admitted. None if one would be admitted at `now`. Does not change the
    /// circuit.
    pub(crate) fn retry_after(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Open { until } => Some(until.saturating_duration_since(now)).filter(|wait| !wait.is_zero()),
            State::HalfOpen { probing: true } => Some(PROBE_RETRY),
            State::Closed | State::HalfOpen { probing: false } => None,
        }
    }

    /// Closes the circuit on an operator's behalf. Returns false if it was closed already.
    pub(crate) fn reset(&mut self) -> bool {
        if self.state == State::Closed {
            self.count = C::default();
            return false;
        }
        self.enter(State::Closed);
        true
    }

    pub(crate) fn state(&self) -> CircuitState {
        match self.state {
            State::Closed => CircuitState::Closed,
            State::Open { .. } => CircuitState::Open,
            State::HalfOpen { .. } => CircuitState::HalfOpen,
        }
    }

    /// The failures that count towards the threshold. For a circuit that is not closed, the failures that opened
    /// it.
    pub(crate) fn failures(&self, now: Instant) -> u32 {
        match self.state {
            State::Closed => self.count.failures(now),
            State::Open { .. } | State::HalfOpen { .. } => self.opened_by,
        }
    }

    /// Whether the circuit can be dropped without losing state.
    pub(crate) fn is_blank(&self) -> bool {
        // Keep a circuit that ever changed, so that late calls of earlier epochs are recognized.
        self.epoch == FIRST_EPOCH && self.count.is_blank()
    }

    fn open(&mut self, rules: &C::Rules, now: Instant) {
        if self.state == State::Closed {
            self.opened_by = self.count.failures(now);
        }
        self.enter(State::Open { until: now + C::recovery(rules) });
    }

    fn enter(&mut self, state: State) {
        // Unique in the process, so that no pass fits a circuit that was evicted and created again.
        static LAST: AtomicU64 = AtomicU64::new(FIRST_EPOCH);
        self.state = state;
        self.epoch = LAST.fetch_add(1, Ordering::Relaxed) + 1;
        self.count = C::default();
    }
}
