//! Exchanges what gateways know of the circuits of skills.
//!
//! A change here is written as the epoch after the last one that this gateway knows. If another gateway changed the circuit
//! first, this one follows it. Only a reset is written again.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use openskill_store::Store;
use openskill_store::circuits::{CircuitCalls, NewCircuitCalls, SharedCircuit, SharedCircuitState};
use openskill_store::engine::StoreError;

use super::time::SharedTime;
use crate::protect::circuit::Circuits;
use crate::protect::circuit::breaker::SharedState;
use crate::protect::circuit::count::Bucket;
use crate::protect::circuit::shared::{SkillCircuit, UncountedCalls};

/// How often changes of other gateways are looked for.
const POLL: Duration = Duration::from_millis(200);

/// How long a gateway that is gone keeps a probe, and how often one that is not renews it.
const PROBE_LEASE: Duration = Duration::from_secs(5);
const RENEWAL: Duration = Duration::from_secs(1);

/// The two names of a state of a circuit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct FollowedEpoch {
    /// The epoch in the store. 0 if the circuit has none.
    shared: i64,
    /// The epoch in this process.
    own: u64,
}

/// The exchange of one gateway.
#[derive(Debug)]
pub(super) struct CircuitExchange {
    gateway: String,
    /// By name. A circuit that is not there has never changed.
    followed: HashMap<String, FollowedEpoch>,
    /// None if the next exchange must begin with a poll.
    polled_at: Option<Instant>,
    renewed_at: Instant,
}

impl CircuitExchange {
    pub(super) fn new(gateway: &str) -> Self {
        let (gateway, followed) = (gateway.to_owned(), HashMap::new());
        Self { gateway, followed, polled_at: None, renewed_at: Instant::now() }
    }

    /// Follows other gateways, adds the calls of this one, and writes its changes.
    pub(super) async fn exchange(&mut self, circuits: &Circuits, store: &Store) -> Result<(), StoreError> {
        if self.polled_at.is_none_or(|it| it.elapsed() >= POLL) {
            self.poll(circuits, store).await?;
        }
        self.add_calls(circuits, store).await?;
        let now = SharedTime::now(store);
        let is_renewal = self.renewed_at.elapsed() >= RENEWAL;
        if is_renewal {
            self.renewed_at = now.instant;
        }
        for circuit in circuits.skill_circuits(now.instant, now.instant + PROBE_LEASE) {
            let followed = self.followed.get(&circuit.name).copied().unwrap_or_default();
            if circuit.epoch != followed.own {
                self.write(circuits, store, &circuit, followed.shared).await?;
            } else if circuit.wants_claim {
                self.claim(circuits, store, circuit, followed.shared).await?;
            } else if circuit.is_probing && is_renewal {
                self.renew(circuits, store, &circuit, followed).await?;
            }
        }
        Ok(())
    }

    /// Lets all circuits continue without the store.
    pub(super) fn detach(&mut self, circuits: &Circuits) {
        self.polled_at = None;
        circuits.detach();
    }

    /// Follows what other gateways have changed.
    async fn poll(&mut self, circuits: &Circuits, store: &Store) -> Result<(), StoreError> {
        let rows = store.circuits().await?;
        let now = SharedTime::now(store);
        let listed: HashSet<_> = rows.iter().map(|row| row.name.as_str()).collect();
        self.followed.retain(|name, it| {
            let is_listed = listed.contains(name.as_str());
            if !is_listed {
                it.shared = 0;
            }
            is_listed || circuits.has_skill(name)
        });
        for row in rows {
            let known = self.followed.get(&row.name).copied().unwrap_or_default();
            let state = self.state(&row, now);
            if row.epoch == known.shared {
                circuits.confirm(&row.name, known.own, state);
                continue;
            }
            let own = circuits.follow(&row.name, state, known.own, now.instant).unwrap_or(known.own);
            self.followed.insert(row.name, FollowedEpoch { shared: row.epoch, own });
        }
        self.polled_at = Some(now.instant);
        Ok(())
    }

    /// Adds calls that ended here, and then looks at those of other gateways: of two that add at the same time, one sees all.
    async fn add_calls(&self, circuits: &Circuits, store: &Store) -> Result<(), StoreError> {
        let followed = |name: &str| self.followed.get(name).copied().unwrap_or_default();
        let new = circuits.take_uncounted(|name, epoch| followed(name).own == epoch);
        if new.is_empty() {
            return Ok(());
        }
        let added: Vec<_> = new.iter().map(|it| new_calls(it, followed(&it.name).shared)).collect();
        store.add_circuit_calls(&self.gateway, &added).await?;
        let elsewhere = store.circuit_calls_elsewhere(&self.gateway).await?;
        let elsewhere: HashMap<_, _> = elsewhere.iter().map(|it| ((it.name.as_str(), it.epoch), it)).collect();
        let now = Instant::now();
        for UncountedCalls { name, calls } in new {
            let others = elsewhere.get(&(name.as_str(), followed(&name).shared));
            let others = others.map(|it| bucket(it)).unwrap_or_default();
            circuits.count_elsewhere(&name, others, calls.bucket.failures > 0, now);
        }
        Ok(())
    }

    /// Writes a change of this gateway, unless another one changed the circuit since epoch `last`.
    async fn write(
        &mut self,
        circuits: &Circuits,
        store: &Store,
        circuit: &SkillCircuit,
        last: i64,
    ) -> Result<(), StoreError> {
        let now = SharedTime::now(store);
        let Some(written) = store.change_circuit(&self.row(circuit, now), last, false).await? else {
            self.polled_at = None;
            return Ok(());
        };
        circuits.confirm(&circuit.name, circuit.epoch, circuit.state);
        let followed = FollowedEpoch { shared: written.epoch, own: circuit.epoch };
        self.followed.insert(circuit.name.clone(), followed);
        Ok(())
    }

    /// Claims the probe of a circuit whose time has passed.
    async fn claim(
        &mut self,
        circuits: &Circuits,
        store: &Store,
        circuit: SkillCircuit,
        last: i64,
    ) -> Result<(), StoreError> {
        let now = SharedTime::now(store);
        let state = SharedState::HalfOpen { until: now.instant + PROBE_LEASE, is_here: true };
        let probe = SkillCircuit { state, ..circuit };
        let Some(claimed) = store.change_circuit(&self.row(&probe, now), last, true).await? else {
            self.polled_at = None;
            return Ok(());
        };
        if let Some(own) = circuits.follow(&probe.name, state, probe.epoch, now.instant) {
            self.followed.insert(probe.name, FollowedEpoch { shared: claimed.epoch, own });
        }
        Ok(())
    }

    async fn renew(
        &mut self,
        circuits: &Circuits,
        store: &Store,
        probe: &SkillCircuit,
        followed: FollowedEpoch,
    ) -> Result<(), StoreError> {
        let now = SharedTime::now(store);
        let until = now.instant + PROBE_LEASE;
        if store.renew_probe(&probe.name, followed.shared, now.store_ms(until)).await? {
            circuits.confirm(&probe.name, followed.own, SharedState::HalfOpen { until, is_here: true });
        } else {
            self.polled_at = None;
        }
        Ok(())
    }

    /// What a row of the store says to this gateway.
    fn state(&self, row: &SharedCircuit, now: SharedTime) -> SharedState {
        let until = now.instant_at_ms(row.until_ms);
        match row.state {
            SharedCircuitState::Closed => SharedState::Closed,
            SharedCircuitState::Open => SharedState::Open { until },
            SharedCircuitState::HalfOpen => SharedState::HalfOpen { until, is_here: row.gateway == self.gateway },
        }
    }

    /// What a circuit of this gateway says to the others.
    fn row(&self, circuit: &SkillCircuit, now: SharedTime) -> SharedCircuit {
        let (state, until_ms) = match circuit.state {
            SharedState::Closed => (SharedCircuitState::Closed, 0),
            SharedState::Open { until } => (SharedCircuitState::Open, now.store_ms(until)),
            SharedState::HalfOpen { until, .. } => (SharedCircuitState::HalfOpen, now.store_ms(until)),
        };
        let is_probe = state == SharedCircuitState::HalfOpen;
        let gateway = if is_probe { self.gateway.clone() } else { String::new() };
        SharedCircuit { name: circuit.name.clone(), epoch: 0, state, until_ms, gateway }
    }
}

fn new_calls(new: &UncountedCalls, epoch: i64) -> NewCircuitCalls {
    let Bucket { calls, failures } = new.calls.bucket;
    let calls = CircuitCalls { name: new.name.clone(), epoch, calls: calls.into(), failures: failures.into() };
    NewCircuitCalls { calls, window_ms: i64::try_from(new.calls.window.as_millis()).unwrap_or(i64::MAX / 4) }
}

fn bucket(calls: &CircuitCalls) -> Bucket {
    let [calls, failures] = [calls.calls, calls.failures].map(|it| u32::try_from(it).unwrap_or(u32::MAX));
    Bucket { calls, failures }
}
