//! `WatchSkills`: the catalog and the circuits now, then each change.
//!
//! A watcher that is slow sees several changes of the catalog as one, and loses none: of circuits it is told the state
//! again if it fell behind.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use futures_util::stream::{self, Stream};
use openskill_proto::v1::{CatalogChange, ChangeKind, Circuit, CircuitState};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{broadcast, watch};
use tonic::Status;

use crate::catalog::{Snapshot, difference};
use crate::gateway::Gateway;

struct Watch {
    gateway: Arc<Gateway>,
    /// Its circuits are told beside the skills' own.
    session: String,
    catalog: watch::Receiver<u64>,
    circuits: broadcast::Receiver<Circuit>,
    /// The catalog as the watcher knows it.
    seen: Arc<Snapshot>,
    pending: VecDeque<CatalogChange>,
}

/// What is there now, then each change, until the gateway drains.
pub(super) fn changes(gateway: Arc<Gateway>, session: String) -> impl Stream<Item = Result<CatalogChange, Status>> {
    // First the subscriptions, then the state: what happens between the two is told twice rather than never.
    let (catalog, circuits) = (gateway.catalog.changes(), gateway.circuits.changes());
    let seen = gateway.catalog.snapshot();
    let pending = difference(&Snapshot::default(), &seen).into();
    let mut watch = Watch { gateway, session, catalog, circuits, seen, pending };
    watch.tell_circuits(|it| it.state() != CircuitState::Closed);
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
                    let now = self.gateway.catalog.snapshot();
                    self.pending.extend(difference(&self.seen, &now));
                    self.seen = now;
                }
                changed = self.circuits.recv() => match changed {
                    Ok(circuit) if self.is_told_of(&circuit) => self.pending.push_back(of_circuit(circuit)),
                    Ok(_) => {}
                    // Some that closed meanwhile may be among those that were missed.
                    Err(RecvError::Lagged(_)) => self.tell_circuits(|_| true),
                    Err(RecvError::Closed) => return None,
                },
                () = self.gateway.draining.cancelled() => return None,
            }
        }
        let next = self.pending.pop_front()?;
        Some((Ok(next), self))
    }

    fn is_told_of(&self, circuit: &Circuit) -> bool {
        circuit.session_id.is_empty() || circuit.session_id == self.session
    }

    /// Tells of circuits as they are now.
    fn tell_circuits(&mut self, wanted: impl Fn(&Circuit) -> bool) {
        // The skills' own alone if there is no session: no session has this name.
        let session = if self.session.is_empty() { "\0" } else { &self.session };
        let circuits = self.gateway.circuits.list("", session, Instant::now()).into_iter();
        self.pending.extend(circuits.filter(wanted).map(of_circuit));
    }
}

fn of_circuit(circuit: Circuit) -> CatalogChange {
    CatalogChange { kind: ChangeKind::Circuit.into(), circuit: Some(circuit), ..CatalogChange::default() }
}
