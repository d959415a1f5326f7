//! Implements the worker's side of the connection to a fork server's supervisor.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::calls::{Calls, Guard};
use crate::launch::SupervisedRun;

/// The interval between checks for overdue calls.
const LOOK: Duration = Duration::from_millis(250);

/// Runs until the supervisor has ended or the fork server has to end. Then kills the rest of the fork server.
pub(super) async fn attend(running: SupervisedRun<Guard>, calls: Arc<Calls>) {
    let Some(control) = running.control() else { return };
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            notice = control.receive() => match notice.and_then(|it| it.map(|it| calls.hear(it)).transpose()) {
                Ok(Some(())) => {}
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a supervisor sent an invalid message; killing its fork server");
                    return;
                }
            },
            now = looks.tick() => calls.check_overdue(now.into_std()),
            () = calls.wake.notified() => {}
        }
        let Some(orders) = calls.orders() else { return };
        for order in orders {
            if let Err(error) = control.send(order) {
                tracing::warn!(%error, "a supervisor does not respond; killing its fork server");
                return;
            }
        }
    }
}
