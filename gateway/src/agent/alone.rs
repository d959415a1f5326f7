//! A server of an agent that calls skills at another gateway. It has the bounds and layers of a gateway, and no workers.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use openskill_agent::hosted::{Hosted, Setup};
use openskill_agent::skills::Skills;
use tokio_util::sync::CancellationToken;

use crate::gateway::{Gateway, Shard};
use crate::serve::connections::peers::Peers;
use crate::serve::connections::roster::Roster;
use crate::serve::faces::grpc::health::Health;
use crate::serve::faces::{Faces, served};
use crate::serve::{connections, stack};

/// Serves an agent over `skills` until `shutdown`. `gateway`: one without workers, whose bounds hold here; `draining`: its own
/// token.
///
/// # Errors
/// The conversations can't be opened, or the listener can't be used.
pub(crate) async fn run(
    (gateway, draining): (Arc<Gateway>, CancellationToken),
    (setup, skills): (Setup, Arc<dyn Skills>),
    listener: TcpListener,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let limit = gateway.config.drain_timeout;
    let mut setup = setup;
    setup.config.tracer.clone_from(&gateway.config.tracer);
    let agent = Hosted::start(setup, skills).await.map_err(io::Error::other)?;
    let health = Health::new();
    let is_loopback = listener.local_addr()?.ip().is_loopback();
    let shard = Shard { gateway: Arc::clone(&gateway), number: 0 };
    let service =
        stack::stack(&gateway, Faces::agent(&shard, &health, &served(agent.clone()))?, is_loopback, &gateway.limits);
    let peers = Peers::new(gateway.config.max_connections_of_peer);
    let roster = Roster::new(gateway.config.max_connections, peers);
    let door = (listener, gateway.config.tls.clone());
    let mut serving = tokio::spawn(connections::serve(door, service, roster, gateway.tasks.clone(), draining.clone()));
    health.set(true);
    tokio::select! {
        () = shutdown.cancelled() => {}
        ended = &mut serving => return ended.map_err(io::Error::other)?,
    }
    health.set(false);
    gateway.leave().await;
    draining.cancel();
    agent.shutdown(limit).await;
    // Streams ended with the agent: what is left are the last answers.
    if tokio::time::timeout(limit, &mut serving).await.is_err() {
        serving.abort();
    }
    Ok(())
}
