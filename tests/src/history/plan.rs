//! What clients do, and when something is killed: the same for the same seed.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

/// The rounds of a small plan, and the time between them.
const ROUNDS: u32 = 4;
const ROUND: Duration = Duration::from_millis(300);

/// A call, and what its client does with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedCall {
    pub key: String,
    /// When its client begins, from the start of the scenario.
    pub at: Duration,
    pub idempotent: bool,
    pub has_idempotency_key: bool,
    /// How many clients submit it at once. More than one only with an idempotency key.
    pub clients: usize,
    pub start: Start,
    pub nap_ms: u64,
    pub fails: bool,
    /// Whether its arguments are refused.
    pub is_invalid: bool,
    pub cancel: Cancel,
    pub read: Read,
}

/// When a call may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    AtOnce,
    After(Duration),
    /// Long after the scenario.
    Never,
}

/// When a client cancels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cancel {
    No,
    /// After the submit.
    After(Duration),
    /// As soon as a gateway serves again that was killed.
    AtRestart,
}

/// How a client reads the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    Get,
    Wait,
    Watch,
}

/// What is killed or stopped. Numbers are positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Victim {
    /// A gateway. The workers of `openskill up` end by themselves.
    Gateway(usize),
    /// A gateway, its workers and their skills.
    Everything,
    /// One worker.
    Worker(usize),
    /// A gateway, which is stopped for longer than its leases are valid, and continues.
    Paused(usize),
    /// The primary of the database, which a standby replaces.
    Primary,
    /// The same, but it hangs before it is ended.
    HangingPrimary,
    /// The primary, which hangs for a while and continues.
    PausedPrimary,
    /// The primary, which loses its standbys for a while before one of them replaces it.
    IsolatedPrimary,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedFault {
    pub at: Duration,
    pub victim: Victim,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    pub calls: Vec<PlannedCall>,
    pub faults: Vec<PlannedFault>,
}

impl Plan {
    /// For `openskill up`: spreads calls and faults over a time, each somewhere in its share of it. The first fault kills a
    /// gateway.
    pub fn random(seed: u64, within: Duration, calls: usize, faults: usize) -> Self {
        Self::spread(seed, within, calls, faults, |random, number| match random.random_range(0..6) {
            0 | 1 => Victim::Everything,
            2 if number > 0 => Victim::Worker(random.random_range(0..2)),
            _ => Victim::Gateway(0),
        })
    }

    /// The same for gateways that share a store and workers.
    pub fn shared(seed: u64, within: Duration, calls: usize, faults: usize) -> Self {
        Self::spread(seed, within, calls, faults, |random, _| {
            let number = random.random_range(0..2);
            match random.random_range(0..8) {
                0 | 1 => Victim::Paused(number),
                2 | 3 => Victim::Worker(number),
                _ => Victim::Gateway(number),
            }
        })
    }

    /// The same for three gateways and four workers, whose database has standbys.
    pub fn failover(seed: u64, within: Duration, calls: usize, faults: usize) -> Self {
        Self::spread(seed, within, calls, faults, |random, _| match random.random_range(0..10) {
            0..2 => Victim::Primary,
            2 => Victim::HangingPrimary,
            3 => Victim::PausedPrimary,
            4 => Victim::IsolatedPrimary,
            5..8 => Victim::Gateway(random.random_range(0..3)),
            _ => Victim::Worker(random.random_range(0..4)),
        })
    }

    fn spread(
        seed: u64,
        within: Duration,
        calls: usize,
        faults: usize,
        victim: impl Fn(&mut StdRng, usize) -> Victim,
    ) -> Self {
        let (mut random, mut fault_random) = (StdRng::seed_from_u64(seed), StdRng::seed_from_u64(!seed));
        let calls = (0..calls).map(|number| {
            let at = moment(&mut random, number, calls, within);
            PlannedCall { at, ..random_call(&mut random, format!("s{seed}-c{number}")) }
        });
        let calls = calls.collect();
        let fault = |number| {
            let at = moment(&mut fault_random, number, faults, within);
            PlannedFault { at, victim: victim(&mut fault_random, number) }
        };
        Self { calls, faults: (0..faults).map(fault).collect() }
    }

    /// Calls of every kind, one round after the other.
    pub fn small() -> Self {
        Self { calls: (0..ROUNDS).flat_map(round).collect(), faults: Vec::new() }
    }
}

/// One call of every kind.
fn round(number: u32) -> [PlannedCall; 5] {
    let call = |name: &str| PlannedCall {
        key: format!("{name}-{number}"),
        at: ROUND * number,
        idempotent: false,
        has_idempotency_key: false,
        clients: 1,
        start: Start::AtOnce,
        nap_ms: 100,
        fails: false,
        is_invalid: false,
        cancel: Cancel::No,
        read: Read::Wait,
    };
    let again = PlannedCall { idempotent: true, has_idempotency_key: true, read: Read::Watch, ..call("again") };
    let fails = PlannedCall { has_idempotency_key: true, fails: true, ..call("fails") };
    let interrupted = PlannedCall { idempotent: true, cancel: Cancel::AtRestart, ..call("interrupted") };
    let cancel = Cancel::After(Duration::from_millis(50));
    let scheduled = PlannedCall { start: Start::Never, cancel, ..call("scheduled") };
    [call("once"), again, fails, interrupted, scheduled]
}

fn moment(random: &mut StdRng, number: usize, count: usize, within: Duration) -> Duration {
    let unit: f64 = random.random();
    within.mul_f64((number as f64 + unit) / count.max(1) as f64)
}

fn random_call(random: &mut StdRng, key: String) -> PlannedCall {
    let milliseconds = |random: &mut StdRng, most: u64| Duration::from_millis(random.random_range(0..most));
    let has_idempotency_key = random.random_bool(0.5);
    let start = match random.random_range(0..20) {
        0 => Start::Never,
        1..4 => Start::After(milliseconds(random, 2000)),
        _ => Start::AtOnce,
    };
    let cancel = match random.random_range(0..10) {
        0 => Cancel::After(milliseconds(random, 800)),
        1 => Cancel::AtRestart,
        _ => Cancel::No,
    };
    PlannedCall {
        key,
        at: Duration::ZERO,
        idempotent: random.random_bool(0.5),
        clients: if has_idempotency_key && random.random_bool(0.3) { 3 } else { 1 },
        has_idempotency_key,
        start,
        nap_ms: random.random_range(0..600),
        fails: random.random_bool(0.1),
        is_invalid: random.random_bool(0.05),
        cancel,
        read: match random.random_range(0..3) {
            0 => Read::Get,
            1 => Read::Wait,
            _ => Read::Watch,
        },
    }
}
