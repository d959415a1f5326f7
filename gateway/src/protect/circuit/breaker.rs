//! The state machine of one circuit breaker. Pure: it takes `now`.
//!
//! ```text
//!            failures reach the threshold  recovery timeout passed: one call is the probe
//!   Closed ──────────────────> Open ────────────────────────────> HalfOpen
//!     ^                          ^                                   │  │
//!     │                          └───────────── probe failed ────────┘  │
//!     └──────────────────────────────────────── probe succeeded ────────┘
//! ```
//!
//! Each change of state begins a new epoch. A call belongs to the epoch it was admitted in; what it reports later changes
//! nothing: a late success from before the circuit opened does not close it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use openskill_proto::v1::CircuitState;

use super::count::Count;

/// When to come back while a probe is in flight. Nobody knows when it ends.
pub(crate) const PROBE_RETRY: Duration = Duration::from_secs(1);

/// One circuit breaker.
#[derive(Debug)]
pub(crate) struct Breaker<C> {
    state: State,
    epoch: Epoch,
    count: C,
    /// How many failures there were when it last opened from closed, for people.
    opened_by: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open { until: Instant },
    HalfOpen { probing: bool },
}

/// The time between two changes of a circuit. Its number is unique in the process, so that a pass never fits a circuit that
/// was evicted and created again. The first epoch of every circuit is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Epoch(u64);

impl Epoch {
    const FIRST: Self = Self(0);

    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// Admits one call. Returned once, to [`Breaker::report`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Pass {
    epoch: Epoch,
}

impl Pass {
    /// For a circuit that is as good as new.
    pub(crate) const FIRST: Self = Self { epoch: Epoch::FIRST };
}

/// A call is admitted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Admitted {
    pub(crate) pass: Pass,
    /// The circuit was open; the call is its half-open probe.
    pub(crate) now_half_open: bool,
}

/// What a call says about its skill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Success,
    Failure,
    /// Nothing: the caller's mistake, a cancellation, the worker's fault.
    Ignored,
}

impl<C: Count> Default for Breaker<C> {
    fn default() -> Self {
        Self { state: State::Closed, epoch: Epoch::FIRST, count: C::default(), opened_by: 0 }
    }
}

impl<C: Count> Breaker<C> {
    /// Admits a call, or returns how long to wait.
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
        Ok(Admitted { pass: Pass { epoch: self.epoch }, now_half_open: was_open })
    }

    /// Reports how an admitted call ended. Returns the new state if it changed.
    pub(crate) fn report(
        &mut self,
        pass: Pass,
        verdict: Verdict,
        rules: &C::Rules,
        now: Instant,
    ) -> Option<CircuitState> {
        if pass.epoch != self.epoch {
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

    /// How long until a call is admitted; none if one would be now. Asking changes nothing.
    pub(crate) fn retry_after(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Open { until } => Some(until.saturating_duration_since(now)).filter(|wait| !wait.is_zero()),
            State::HalfOpen { probing: true } => Some(PROBE_RETRY),
            State::Closed | State::HalfOpen { probing: false } => None,
        }
    }

    /// Closes it on an operator's behalf. False if it was closed.
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

    /// Failures counted towards the threshold; those that opened it unless it is closed.
    pub(crate) fn failures(&self, now: Instant) -> u32 {
        match self.state {
            State::Closed => self.count.failures(now),
            State::Open { .. } | State::HalfOpen { .. } => self.opened_by,
        }
    }

    /// Whether forgetting it would change nothing.
    pub(crate) fn is_blank(&self) -> bool {
        // One that ever changed is kept, so that calls of its earlier epochs are known to be late.
        self.epoch == Epoch::FIRST && self.count.is_blank()
    }

    fn open(&mut self, rules: &C::Rules, now: Instant) {
        if self.state == State::Closed {
            self.opened_by = self.count.failures(now);
        }
        self.enter(State::Open { until: now + C::recovery(rules) });
    }

    fn close(&mut self) {
        self.enter(State::Closed);
    }

    fn enter(&mut self, state: State) {
        self.state = state;
        self.epoch = Epoch::next();
        self.count = C::default();
    }
}
