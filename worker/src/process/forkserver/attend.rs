//! Hears what a fork server's supervisor says, and tells it what to end.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::WriteHalf;
use tokio::sync::mpsc;

use super::calls::{Calls, Guard};
use crate::process::launch::Running;
use crate::process::wire::{Notice, Order, Report};

/// How long it may take to get ready. Its calls go elsewhere then, while they still have time.
const START: Duration = Duration::from_secs(10);

/// Until the supervisor has ended, or the fork server is to go. What is left of it then is ended.
pub(super) async fn attend(mut running: Running<Guard>, calls: Arc<Calls>, mut orders: mpsc::Receiver<Order>) {
    let Some(control) = running.control() else { return };
    let (from, mut to) = control.split();
    let mut lines = BufReader::new(from).lines();
    let mut late = std::pin::pin!(async {
        tokio::time::sleep(START).await;
        if !calls.is_ready() {
            tracing::warn!("a fork server did not get ready in time and is given up");
            calls.condemn();
        }
        std::future::pending::<()>().await;
    });
    let mut overdue = std::pin::pin!(calls.overdue());
    loop {
        tokio::select! {
            line = lines.next_line() => match line {
                Ok(Some(line)) => take(&line, &calls),
                Ok(None) | Err(_) => return,
            },
            order = orders.recv() => {
                let Some(order) = order else { return };
                if tell(&mut to, order).await.is_err() {
                    return;
                }
            }
            call = &mut overdue => {
                tracing::warn!("a call said that it ended and is not over: it is killed");
                if tell(&mut to, Order::Kill(call)).await.is_err() {
                    return;
                }
                overdue.set(calls.overdue());
            }
            () = &mut late => {}
            () = calls.condemned.notified() => return,
        }
    }
}

async fn tell(supervisor: &mut WriteHalf<'_>, order: Order) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(&order)?;
    line.push(b'\n');
    supervisor.write_all(&line).await
}

fn take(line: &str, calls: &Calls) {
    match serde_json::from_str(line) {
        Ok(Notice::Ready(loaded)) => {
            for import in &loaded.not_preloaded {
                tracing::info!(import, "this import leaves threads or open files behind: each call runs it again");
            }
            calls.ready(loaded);
        }
        Ok(Notice::Ended { call, exit, leftovers }) => calls.end(call, Report::Ended { exit, leftovers }),
        Ok(Notice::Gone { running }) => calls.gone(&running),
        // It could not even be started.
        Err(_) => calls.gone(&[]),
    }
}
