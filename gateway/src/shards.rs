//! One thread a shard, each with a runtime of its own, a listener, and its own connections to the workers.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use openskill_net::shards::{Shards, Shutdown};
use tokio::sync::Semaphore;

use crate::face::Face;
use crate::gateway::Gateway;
use crate::health::Health;
use crate::layers::origin::Listener;
use crate::server;

/// How long connections stay after the last call, for its answer to get out.
const LINGER: Duration = Duration::from_secs(1);

/// A shard's stack. Checking arguments recurses: for each level of a call, once for each subschema that leads to another.
const STACK: usize = 16 * 1024 * 1024;

/// Starts a shard for each listener.
pub(crate) fn start(gateway: &Arc<Gateway>, health: &Health, listeners: Vec<TcpListener>) -> std::io::Result<Shards> {
    // A budget for each: a shard that waits for a connection must not keep another from taking one.
    let budget = (gateway.config.max_connections / listeners.len().max(1)).max(1);
    let mut shards = Shards::new("gateway").with_stack_bytes(STACK);
    for (number, listener) in listeners.into_iter().enumerate() {
        let loopback = listener.local_addr()?.ip().is_loopback();
        let face = Face::new(gateway, number, health, Listener { loopback })?;
        let (connections, tasks) = (Arc::new(Semaphore::new(budget)), gateway.tasks.clone());
        shards.spawn(move |shutdown: Shutdown| async move {
            let serve = async {
                let served = server::serve(listener, face, connections, tasks.clone(), shutdown.stop.clone());
                if let Err(error) = served.await {
                    tracing::error!(%error, "a shard failed");
                }
                // Calls that go on without their clients, and connections that linger.
                tasks.wait().await;
            };
            shutdown.unless_abandoned(serve).await;
        })?;
    }
    Ok(shards)
}

/// Stops accepting, waits for the calls under way, and drops what is left: calls after `limit`, and streams that
/// have no call (a client that watches our health, say) soon after the last call.
pub(crate) async fn drain(shards: Shards, gateway: &Gateway, limit: Duration) {
    shards.stop();
    gateway.tasks.close();
    tokio::select! {
        () = shards.ended() => {}
        () = tokio::time::sleep(limit) => {
            tracing::warn!(limit_ms = limit.as_millis() as u64, "calls were still running and are ended");
        }
        () = no_calls_for(gateway, LINGER) => {}
    }
    shards.join().await;
}

/// Waits until there was no call for a while, and no large answer on its way, so that the last answers are out.
async fn no_calls_for(gateway: &Gateway, quiet: Duration) {
    let step = quiet / 10;
    let mut quiet_steps = 0;
    while quiet_steps < 10 {
        tokio::time::sleep(step).await;
        let is_quiet = gateway.in_flight() == 0 && gateway.leaving.held() == 0;
        quiet_steps = if is_quiet { quiet_steps + 1 } else { 0 };
    }
}
