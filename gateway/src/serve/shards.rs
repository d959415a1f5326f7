//! One shard a thread, each with a runtime and a listener of its own, and its own connections to the workers.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use openskill_agent::faces::Served;
use openskill_net::shards::{Shards, Shutdown};

use super::connections;
use super::connections::peers::Peers;
use super::connections::roster::Roster;
use super::faces::Faces;
use super::faces::grpc::health::Health;
use super::stack::stack;
use crate::gateway::{Gateway, Shard};
use crate::state::limits::SharedLimit;

/// How long connections stay open after the last call, so that its answer gets out.
const LINGER: Duration = Duration::from_secs(1);

/// A shard's stack, in bytes. Validating arguments recurses: for each level of a call, once for each subschema on the way.
const STACK: usize = 16 * 1024 * 1024;

/// Starts a shard for each listener. `with_admin`: they serve `AdminService` too. `agent`: they serve the agent too.
pub(crate) fn start(
    gateway: &Arc<Gateway>,
    health: &Health,
    agent: Option<&Served>,
    listeners: Vec<TcpListener>,
    with_admin: bool,
) -> std::io::Result<Shards> {
    // A limit for each: a shard that waits for a connection must not keep another from accepting one.
    let limit = (gateway.config.max_connections / listeners.len().max(1)).max(1);
    let peers = Peers::new(gateway.config.max_connections_of_peer);
    let mut shards = Shards::new("gateway").with_stack_bytes(STACK);
    for (number, listener) in listeners.into_iter().enumerate() {
        let shard = Shard { gateway: Arc::clone(gateway), number };
        let is_loopback = listener.local_addr()?.ip().is_loopback();
        let faces = Faces::public(&shard, health, agent, with_admin, is_loopback)?;
        let service = stack(gateway, faces, is_loopback, &gateway.limits);
        let (roster, tasks) = (Roster::new(limit, Arc::clone(&peers)), gateway.tasks.clone());
        let door = (listener, gateway.config.tls.clone());
        shards.spawn(move |shutdown: Shutdown| async move {
            let serve = async {
                let served = connections::serve(door, service, roster, tasks.clone(), shutdown.stop.clone());
                if let Err(error) = served.await {
                    tracing::error!(%error, "a shard failed");
                }
                // Calls that continue without their clients, and connections that linger.
                tasks.wait().await;
            };
            shutdown.unless_abandoned(serve).await;
        })?;
    }
    Ok(shards)
}

/// Stops accepting and waits for the calls in flight. Then drops the rest: calls after `limit`, and streams without a call (a
/// client that watches health, say) shortly after the last call.
pub(crate) async fn drain(shards: Shards, gateway: &Gateway, limit: Duration) {
    shards.stop();
    gateway.tasks.close();
    tokio::select! {
        () = shards.ended() => {}
        () = tokio::time::sleep(limit) => {
            tracing::warn!(limit_ms = limit.as_millis() as u64, "the drain timeout passed: calls in flight are dropped");
        }
        () = no_calls_for(gateway, LINGER) => {}
    }
    shards.join().await;
}

/// Waits until there was no call and no large answer in flight for a while, so that the last answers are out.
async fn no_calls_for(gateway: &Gateway, quiet: Duration) {
    let step = quiet / 10;
    let mut quiet_steps = 0;
    while quiet_steps < 10 {
        tokio::time::sleep(step).await;
        let is_quiet = gateway.in_flight() == 0 && gateway.limits.pool(SharedLimit::Responses).used() == 0;
        quiet_steps = if is_quiet { quiet_steps + 1 } else { 0 };
    }
}
