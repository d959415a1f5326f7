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
//!
//! Gateways that share a circuit [follow](Breaker::follow) what the store says about it. Then a gateway probes only if the
//! store gave the probe to it, and until a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use openskill_proto::v1::CircuitState;

use super::count::{Bucket, Count, Window, WindowCalls};

/// The retry delay while a probe is in flight, because its end is unknown.
pub(crate) const PROBE_RETRY: Duration = Duration::from_secs(1);

/// The retry delay until the store has given the probe to a gateway.
const CLAIM_RETRY: Duration = Duration::from_millis(250);

#[derive(Debug)]
pub(crate) struct Breaker<C> {
    state: State,
    epoch: u64,
    count: C,
    /// The number of failures at which it last opened from closed, for display.
    opened_by: u32,
    prober: Prober,
    /// Whether a call was refused in this epoch.
    has_demand: bool,
    was_reset: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed,
    Open {
        until: Instant,
    },
    HalfOpen {
        probing: bool,
    },
    /// Another gateway probes, or is gone once the time has passed.
    HalfOpenElsewhere {
        until: Instant,
    },
}

/// Who may let the probe pass once the recovery timeout has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Prober {
    /// The first call, because the circuit is not shared.
    FirstCall,
    /// Whoever claims it in the store.
    Claimant,
    /// A call at this gateway, until the claim ends.
    Here { until: Instant },
}

/// What the store says about a circuit that gateways share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SharedState {
    Closed,
    /// Nobody may probe until the time has passed.
    Open {
        until: Instant,
    },
    /// One gateway may probe until then.
    HalfOpen {
        until: Instant,
        is_here: bool,
    },
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
        Self {
            state: State::Closed,
            epoch: FIRST_EPOCH,
            count: C::default(),
            opened_by: 0,
            prober: Prober::FirstCall,
            has_demand: false,
            was_reset: false,
        }
    }
}

impl<C: Count> Breaker<C> {
    /// Admits a call, or returns how long it should wait.
    pub(crate) fn admit(&mut self, now: Instant) -> Result<Pass, Duration> {
        if self.state == State::Closed {
            return Ok(Pass(self.epoch));
        }
        if let Some(wait) = self.retry_after(now).or_else(|| self.claim_retry(now)) {
            self.has_demand = true;
            return Err(wait);
        }
        match self.state {
            State::HalfOpen { .. } => self.state = State::HalfOpen { probing: true },
            _ => self.enter(State::HalfOpen { probing: true }),
        }
        Ok(Pass(self.epoch))
    }

    /// Returns how long to wait for a claim of the probe. None if this gateway may probe.
    fn claim_retry(&self, now: Instant) -> Option<Duration> {
        let may_probe = match self.prober {
            Prober::FirstCall => true,
            Prober::Claimant => false,
            Prober::Here { until } => now < until,
        };
        (!may_probe).then_some(CLAIM_RETRY)
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
            (State::Closed, Verdict::Ignored) | (State::Open { .. } | State::HalfOpenElsewhere { .. }, _) => {
                return None;
            }
        }
        Some(self.state())
    }

    /// Returns how long until a call would be admitted. None if one would be admitted at `now`. Does not change the
    /// circuit.
    pub(crate) fn retry_after(&self, now: Instant) -> Option<Duration> {
        match self.state {
            State::Open { until } => Some(until.saturating_duration_since(now)).filter(|wait| !wait.is_zero()),
            State::HalfOpen { probing: true } => Some(PROBE_RETRY),
            State::HalfOpenElsewhere { until } => (now < until).then_some(PROBE_RETRY),
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
        self.was_reset = true;
        true
    }

    pub(crate) fn state(&self) -> CircuitState {
        match self.state {
            State::Closed => CircuitState::Closed,
            State::Open { .. } => CircuitState::Open,
            State::HalfOpen { .. } | State::HalfOpenElsewhere { .. } => CircuitState::HalfOpen,
        }
    }

    /// The failures that count towards the threshold. For a circuit that is not closed, the failures that opened
    /// it.
    pub(crate) fn failures(&self, now: Instant) -> u32 {
        match self.state {
            State::Closed => self.count.failures(now),
            _ => self.opened_by,
        }
    }

    /// Enters the state that the store says is the newest. Returns it if it differs from the one before.
    pub(crate) fn follow(&mut self, shared: SharedState, now: Instant) -> Option<CircuitState> {
        let before = self.state();
        if before == CircuitState::Closed {
            self.opened_by = self.count.failures(now);
        }
        self.enter(match shared {
            SharedState::Closed => State::Closed,
            SharedState::Open { until } => State::Open { until },
            SharedState::HalfOpen { is_here: true, .. } => State::HalfOpen { probing: false },
            SharedState::HalfOpen { until, is_here: false } => State::HalfOpenElsewhere { until },
        });
        self.confirm(shared);
        Some(self.state()).filter(|state| *state != before)
    }

    /// Notes what the store says about the state that this gateway entered, or followed, before.
    pub(crate) fn confirm(&mut self, shared: SharedState) {
        self.prober = match shared {
            SharedState::Closed => Prober::FirstCall,
            SharedState::HalfOpen { until, is_here: true } => Prober::Here { until },
            SharedState::Open { .. } | SharedState::HalfOpen { .. } => Prober::Claimant,
        };
        if let (State::HalfOpenElsewhere { until: known }, SharedState::HalfOpen { until, .. }) =
            (&mut self.state, shared)
        {
            *known = until;
        }
    }

    /// Continues without the store: as far as is known, nobody else probes.
    pub(crate) fn detach(&mut self) {
        self.prober = Prober::FirstCall;
    }

    /// Whether the state has ever changed.
    pub(crate) fn has_changed(&self) -> bool {
        self.epoch != FIRST_EPOCH
    }

    /// Identifies the state. Changes with each change of state.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The state for other gateways, if this one may probe until `claim_end`.
    pub(crate) fn shared_state(&self, claim_end: Instant) -> SharedState {
        match self.state {
            State::Closed => SharedState::Closed,
            State::Open { until } => SharedState::Open { until },
            State::HalfOpen { .. } => SharedState::HalfOpen { until: claim_end, is_here: true },
            State::HalfOpenElsewhere { until } => SharedState::HalfOpen { until, is_here: false },
        }
    }

    /// Whether an operator closed it in this epoch.
    pub(crate) fn was_reset(&self) -> bool {
        self.was_reset
    }

    /// Whether a probe of this gateway is in flight.
    pub(crate) fn is_probing(&self) -> bool {
        self.state == State::HalfOpen { probing: true }
    }

    /// Whether calls wait for this gateway to claim the probe.
    pub(crate) fn wants_claim(&self, now: Instant) -> bool {
        self.has_demand && self.retry_after(now).is_none() && self.claim_retry(now).is_some()
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
        self.prober = Prober::FirstCall;
        self.has_demand = false;
        self.was_reset = false;
    }
}

impl Breaker<Window> {
    /// Returns the calls that were counted since this was last called. None if there are none.
    pub(crate) fn take_uncounted(&mut self) -> Option<WindowCalls> {
        self.count.take_uncounted()
    }

    /// Adds the calls of other gateways to those that were counted here. Opens the circuit if a failure `is_new`, and the
    /// rate of failures is now too high. Returns the new state if it changed.
    pub(crate) fn count_elsewhere(&mut self, elsewhere: Bucket, is_new: bool, now: Instant) -> Option<CircuitState> {
        if self.state != State::Closed {
            return None;
        }
        let rules = self.count.set_elsewhere(elsewhere, now)?;
        if !is_new || !self.count.is_over(&rules, now) {
            return None;
        }
        self.open(&rules, now);
        Some(self.state())
    }
}
