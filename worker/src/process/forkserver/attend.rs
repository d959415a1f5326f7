//! The worker's conversation with a fork server's supervisor.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::MissedTickBehavior;

use super::calls::{Calls, Guard};
use crate::process::launch::Running;

/// How often overdue calls are looked for.
const LOOK: Duration = Duration::from_millis(250);

/// Until the supervisor has ended, or the fork server is to end. What is left of it is then killed.
pub(super) async fn attend(running: Running<Guard>, calls: Arc<Calls>) {
    let Some(control) = running.control() else { return };
    let mut looks = tokio::time::interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            notice = control.receive() => match notice.and_then(|it| it.map(|it| calls.hear(it)).transpose()) {
                Ok(Some(())) => {}
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "a supervisor sent no message of the protocol: its fork server is ended");
                    return;
                }
            },
            now = looks.tick() => calls.look(now.into_std()),
            () = calls.wake.notified() => {}
        }
        let Some(orders) = calls.orders() else { return };
        for order in orders {
            if let Err(error) = control.send(order) {
                tracing::warn!(%error, "a supervisor takes no orders: its fork server is ended");
                return;
            }
        }
    }
}
