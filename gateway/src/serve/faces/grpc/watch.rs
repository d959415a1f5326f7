//! `WatchSkills`: streams the current catalog and circuits, then each change.
//!
//! A slow watcher gets several catalog changes as one, but misses none. If it lags behind with circuits, it gets
//! their state again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, Stream};
use openskill_proto::v1::{CatalogChange, ChangeKind, CircuitState};
use openskill_skill::versions::split;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tonic::Status;

use crate::call::principal::Principal;
use crate::catalog::snapshot::{Snapshot, difference};
use crate::gateway::Gateway;
use crate::protect::circuit::CircuitChange;

struct Watch {
    gateway: Arc<Gateway>,
    /// The principal whose session circuits are reported, along with the skills' circuits.
    principal: Principal,
    session: String,
    catalog: watch::Receiver<u64>,
    circuits: broadcast::Receiver<CircuitChange>,
    /// The last catalog that was sent to the watcher.
    seen: Arc<Snapshot>,
    pending: VecDeque<CatalogChange>,
}

/// Streams the current state, then each change, until the gateway shuts down.
pub(super) fn changes(
    gateway: Arc<Gateway>,
    principal: Principal,
    session: String,
) -> impl Stream<Item = Result<CatalogChange, Status>> {
    // Subscribe before reading the state, so that a change in between is reported twice rather than never.
    let (catalog, circuits) = (gateway.catalog.changes(), gateway.circuits.changes());
    let seen = gateway.catalog.snapshot_for(&principal);
    let pending = difference(&Snapshot::default(), &seen).into();
    let mut watch = Watch { gateway, principal, session, catalog, circuits, seen, pending };
    watch.report_circuits(|it| it.circuit.state() != CircuitState::Closed);
    match watch.pending.back_mut() {
        Some(last) => last.snapshot_complete = true,
        None => watch.pending.push_back(CatalogChange { snapshot_complete: true, ..CatalogChange::default() }),
    }
    stream::unfold(watch, Watch::next)
}

impl Watch {
    async fn next(mut self) -> Option<(Result<CatalogChange, Status>, Self)> {
        while self.pending.is_empty() {
            tokio::select! {
                changed = self.catalog.changed() => {
                    changed.ok()?;
                    let now = self.gateway.catalog.snapshot_for(&self.principal);
                    self.pending.extend(difference(&self.seen, &now));
                    self.seen = now;
                }
                changed = self.circuits.recv() => match changed {
                    Ok(change) if self.concerns(&change) => self.pending.push_back(circuit_change(change)),
                    Ok(_) => {}
                    // The missed changes may include circuits that closed.
                    Err(RecvError::Lagged(_)) => self.report_circuits(|_| true),
                    Err(RecvError::Closed) => return None,
                },
                () = self.gateway.shutdown.cancelled() => return None,
            }
        }
        let next = self.pending.pop_front()?;
        Some((Ok(next), self))
    }

    /// Whether a circuit belongs to a skill that the watcher may see, or to one of its sessions.
    fn concerns(&self, change: &CircuitChange) -> bool {
        if !self.principal.sees_all() && !self.seen.contains_key(split(&change.circuit.skill_id).0) {
            return false;
        }
        let session = &change.circuit.session_id;
        session.is_empty() || (*session == self.session && change.principal == self.principal.name())
    }

    /// Reports the current state of the circuits that `wanted` accepts.
    fn report_circuits(&mut self, wanted: impl Fn(&CircuitChange) -> bool) {
        let circuits = self.gateway.circuits.list("", "", Instant::now()).into_iter();
        let concerned: Vec<_> = circuits.filter(|it| self.concerns(it) && wanted(it)).map(circuit_change).collect();
        self.pending.extend(concerned);
    }
}

fn circuit_change(change: CircuitChange) -> CatalogChange {
    CatalogChange { kind: ChangeKind::Circuit.into(), circuit: Some(change.circuit), ..CatalogChange::default() }
}
