//! The circuits of skills, which open, probe and close for all gateways of a store.
//!
//! Each change of a circuit is a new epoch, and names the epoch that it follows: of several gateways that decide at the
//! same time, one succeeds. A circuit that has been closed for a while has no row.
//!
//! Each gateway adds the calls that it has counted in an epoch, by the time at which they no longer count.

use crate::Store;
use crate::engine::{Row, Statement, StoreError, Value};

const LIST: &str = "SELECT name, epoch, state, until_ms, gateway FROM circuits";
const CHANGE: &str = "INSERT INTO circuits (name, epoch, state, until_ms, gateway, changed_ms) \
                      VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name) DO UPDATE SET epoch = excluded.epoch, \
                      state = excluded.state, until_ms = excluded.until_ms, gateway = excluded.gateway, \
                      changed_ms = excluded.changed_ms WHERE circuits.epoch = $7 AND circuits.until_ms <= $8 \
                      RETURNING epoch";
const RENEW: &str = "UPDATE circuits SET until_ms = $3 WHERE name = $1 AND epoch = $2 RETURNING epoch";
const ADD_CALLS: &str = "INSERT INTO circuit_calls (name, epoch, gateway, remove_ms, calls, failures) \
                         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (name, epoch, gateway, remove_ms) DO UPDATE \
                         SET calls = circuit_calls.calls + excluded.calls, \
                         failures = circuit_calls.failures + excluded.failures";
const SUM_CALLS: &str = "SELECT name, epoch, CAST(sum(calls) AS BIGINT), CAST(sum(failures) AS BIGINT) \
                         FROM circuit_calls WHERE gateway <> $1 AND remove_ms > $2 GROUP BY name, epoch";
const REMOVE_CALLS: &str = "DELETE FROM circuit_calls WHERE remove_ms <= $1";
const REMOVE_CLOSED: &str = "DELETE FROM circuits WHERE state = 0 AND changed_ms < $1";

/// How long a circuit is kept after it closed.
const KEEP_MS: i64 = 3_600_000;

/// The number of steps in which a window slides.
const STEPS: i64 = 10;

/// The state of a circuit. The numbers are in the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SharedCircuitState {
    /// Calls pass.
    Closed = 0,
    /// Calls are refused until a time.
    Open = 1,
    /// A gateway may let one call pass.
    HalfOpen = 2,
}

/// A circuit that changed at least once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedCircuit {
    /// The skill, or one of its versions.
    pub name: String,
    /// Identifies the last change.
    pub epoch: i64,
    /// See [`SharedCircuitState`].
    pub state: SharedCircuitState,
    /// Until when the circuit stays open, or its probe is its gateway's. 0 if it is closed.
    pub until_ms: i64,
    /// The gateway that may let the probe pass. Empty unless the circuit is half-open.
    pub gateway: String,
}

/// The calls of a circuit that were counted in an epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitCalls {
    /// The circuit.
    pub name: String,
    /// The epoch, or 0 if the circuit has never changed.
    pub epoch: i64,
    /// How many ended.
    pub calls: i64,
    /// How many of them failed.
    pub failures: i64,
}

/// Calls to add to those of a circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewCircuitCalls {
    /// The calls, which have just ended.
    pub calls: CircuitCalls,
    /// How long they count, in milliseconds.
    pub window_ms: i64,
}

impl SharedCircuit {
    fn read(row: &mut Row) -> Result<Self, StoreError> {
        let (name, epoch, state) = (row.text()?, row.integer()?, row.integer()?);
        let state = match state {
            0 => SharedCircuitState::Closed,
            1 => SharedCircuitState::Open,
            2 => SharedCircuitState::HalfOpen,
            other => return Err(StoreError::Damaged(format!("a circuit has the unknown state {other}"))),
        };
        Ok(Self { name, epoch, state, until_ms: row.integer()?, gateway: row.text()? })
    }
}

impl Store {
    /// Lists the circuits that are not closed, or have been closed for less than an hour.
    ///
    /// # Errors
    /// The store failed.
    pub async fn circuits(&self) -> Result<Vec<SharedCircuit>, StoreError> {
        let mut rows = self.engine.read(Statement::new(LIST, [])).await?;
        rows.iter_mut().map(SharedCircuit::read).collect()
    }

    /// Changes a circuit whose last epoch is `last` (0 if it has none), and returns the new one. `next.epoch` is ignored. With
    /// `if_over`, changes it only if its time has passed: that of an open circuit, or of a probe. None if another
    /// gateway changed it, or its time has not passed.
    ///
    /// # Errors
    /// The store failed. After [`StoreError::Unknown`], [`Self::circuits`] says what happened.
    pub async fn change_circuit(
        &self,
        next: &SharedCircuit,
        last: i64,
        if_over: bool,
    ) -> Result<Option<SharedCircuit>, StoreError> {
        let now = self.now_ms();
        // Never the epoch of a row that was removed.
        let epoch = now.max(last.saturating_add(1));
        let values: [Value; 8] = [
            next.name.as_str().into(),
            epoch.into(),
            (next.state as i64).into(),
            next.until_ms.into(),
            next.gateway.as_str().into(),
            now.into(),
            last.into(),
            if if_over { now } else { i64::MAX }.into(),
        ];
        let changed = self.first(Statement::new(CHANGE, values)).await?;
        Ok(changed.map(|_| SharedCircuit { epoch, ..next.clone() }))
    }

    /// Extends the time of a probe. Returns false if the circuit has changed.
    ///
    /// # Errors
    /// The store failed.
    pub async fn renew_probe(&self, name: &str, epoch: i64, until_ms: i64) -> Result<bool, StoreError> {
        let values = [name.into(), epoch.into(), until_ms.into()];
        Ok(self.first(Statement::new(RENEW, values)).await?.is_some())
    }

    /// Adds a gateway's calls.
    ///
    /// # Errors
    /// The store failed. After [`StoreError::Unknown`] they may have been added.
    pub async fn add_circuit_calls(&self, gateway: &str, new: &[NewCircuitCalls]) -> Result<(), StoreError> {
        let now = self.now_ms();
        let add = |NewCircuitCalls { calls: it, window_ms }: &NewCircuitCalls| {
            let step = (window_ms / STEPS).max(1);
            let values: [Value; 6] = [
                it.name.as_str().into(),
                it.epoch.into(),
                gateway.into(),
                (now - now % step + window_ms).into(),
                it.calls.into(),
                it.failures.into(),
            ];
            Statement::new(ADD_CALLS, values)
        };
        self.engine.write(new.iter().map(add).collect()).await.map(drop)
    }

    /// Sums up the calls of all other gateways that still count, by circuit and epoch.
    ///
    /// # Errors
    /// The store failed.
    pub async fn circuit_calls_elsewhere(&self, gateway: &str) -> Result<Vec<CircuitCalls>, StoreError> {
        let values = [gateway.into(), self.now_ms().into()];
        let mut rows = self.engine.read(Statement::new(SUM_CALLS, values)).await?;
        let read = |row: &mut Row| {
            let (name, epoch) = (row.text()?, row.integer()?);
            Ok(CircuitCalls { name, epoch, calls: row.integer()?, failures: row.integer()? })
        };
        rows.iter_mut().map(read).collect()
    }

    /// Removes calls that no longer count, and circuits that have been closed for an hour.
    ///
    /// # Errors
    /// The store failed.
    pub async fn remove_old_circuits(&self) -> Result<(), StoreError> {
        let now = self.now_ms();
        let removals = [(REMOVE_CALLS, now), (REMOVE_CLOSED, now - KEEP_MS)];
        self.engine.write(removals.map(|(sql, before)| Statement::new(sql, [before.into()])).into()).await.map(drop)
    }
}
