//! Starts and drains shards: threads with separate runtimes, listeners and connections to the workers.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use openskill_agent::faces::Served;
use openskill_net::shards::{Shards, Shutdown};

use super::connections::limiter::ConnectionLimiter;
use super::connections::peers::Peers;
use super::connections::{self, TlsListener};
use super::faces::Faces;
use super::faces::grpc::health::Health;
use super::stack::stack;
use crate::gateway::{Gateway, Shard};
use crate::state::limits::SharedLimit;

/// How long connections stay open after the last call, so that its response can be sent.
const LINGER: Duration = Duration::from_secs(1);

/// The stack size of a shard's thread, in bytes. Large, because argument validation recurses through each level and
/// each nested subschema.
const STACK: usize = 16 * 1024 * 1024;

/// Starts a shard for each listener. With `with_admin`, the shards also serve `AdminService`. With `agent`, they
/// also serve the agent.
pub(crate) fn start(
    gateway: &Arc<Gateway>,
    health: &Health,
    agent: Option<&Served>,
    listeners: Vec<TcpListener>,
    with_admin: bool,
) -> std::io::Result<Shards> {
    // Each shard has its own limit, so that a shard that waits for a permit does not block another from accepting.
    let limit = (gateway.config.max_connections / listeners.len().max(1)).max(1);
    let peers = Peers::new(gateway.config.max_connections_of_peer);
    let mut shards = Shards::new("gateway").with_stack_bytes(STACK);
    for (number, listener) in listeners.into_iter().enumerate() {
        let shard = Shard { gateway: Arc::clone(gateway), number };
        let is_loopback = listener.local_addr()?.ip().is_loopback();
        let faces = Faces::public(&shard, health, agent, with_admin, is_loopback)?;
        let service = stack(gateway, faces, is_loopback, &gateway.limits);
        let (limiter, tasks) = (ConnectionLimiter::new(limit, Arc::clone(&peers)), gateway.tasks.clone());
        let listener = TlsListener { listener, tls: gateway.config.tls.clone() };
        shards.spawn(move |shutdown: Shutdown| async move {
            let serve = async {
                let served = connections::serve(listener, service, limiter, tasks.clone(), shutdown.stop.clone());
                if let Err(error) = served.await {
                    tracing::error!(%error, "a shard failed");
                }
                // Wait for calls that continue without their clients, and for lingering connections.
                tasks.wait().await;
            };
            shutdown.unless_abandoned(serve).await;
        })?;
    }
    Ok(shards)
}

/// Stops accepting, and waits for the calls in flight. Then drops the rest: calls after `limit`, and streams
/// without a call (such as health watches) shortly after the last call.
pub(crate) async fn drain(shards: Shards, gateway: &Gateway, limit: Duration) {
    shards.stop();
    gateway.tasks.close();
    tokio::select! {
        () = shards.wait_ended() => {}
        () = tokio::time::sleep(limit) => {
            tracing::warn!(limit_ms = limit.as_millis() as u64, "the drain timeout passed: calls in flight are dropped");
        }
        () = no_calls_for(gateway, LINGER) => {}
    }
    shards.join().await;
}

/// Waits until no call or large response has been in flight for `quiet`, so that the last responses can be sent.
async fn no_calls_for(gateway: &Gateway, quiet: Duration) {
    let step = quiet / 10;
    let mut quiet_steps = 0;
    while quiet_steps < 10 {
        tokio::time::sleep(step).await;
        let is_quiet = gateway.in_flight() == 0 && gateway.limits.pool(SharedLimit::Responses).in_use() == 0;
        quiet_steps = if is_quiet { quiet_steps + 1 } else { 0 };
    }
}
