//! Serves an agent that calls the skills of a remote gateway. It has a gateway's limits and layers, but no workers.

use std::io;
use std::net::TcpListener;
use std::sync::Arc;

use openskill_agent::hosted::{Hosted, Setup};
use openskill_agent::skills::SkillGateway;
use tokio_util::sync::CancellationToken;

use crate::gateway::{Gateway, Shard};
use crate::serve::connections::TlsListener;
use crate::serve::connections::limiter::ConnectionLimiter;
use crate::serve::connections::peers::Peers;
use crate::serve::faces::grpc::health::Health;
use crate::serve::faces::{Faces, serve_agent};
use crate::serve::{connections, stack};

/// Serves an agent over `skills` until `shutdown`. `gateway` has no workers and only provides limits and layers. This
/// function cancels `draining` after the lame-duck period.
///
/// # Errors
/// The conversations can't be opened, or the listener can't be used.
pub(crate) async fn run(
    gateway: Arc<Gateway>,
    draining: CancellationToken,
    mut setup: Setup,
    skills: Arc<dyn SkillGateway>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> io::Result<()> {
    let limit = gateway.config.drain_timeout;
    setup.config.tracer.clone_from(&gateway.config.tracer);
    let agent = Hosted::start(setup, skills).await.map_err(io::Error::other)?;
    let health = Health::new();
    let is_loopback = listener.local_addr()?.ip().is_loopback();
    let shard = Shard { gateway: Arc::clone(&gateway), number: 0 };
    let service = stack::stack(
        &gateway,
        Faces::agent(&shard, &health, &serve_agent(agent.clone()))?,
        is_loopback,
        &gateway.limits,
    );
    let peers = Peers::new(gateway.config.max_connections_of_peer);
    let limiter = ConnectionLimiter::new(gateway.config.max_connections, peers);
    let listener = TlsListener { listener, tls: gateway.config.tls.clone() };
    let mut serving =
        tokio::spawn(connections::serve(listener, service, limiter, gateway.tasks.clone(), draining.clone()));
    health.set(true);
    tokio::select! {
        () = shutdown.cancelled() => {}
        ended = &mut serving => return ended.map_err(io::Error::other)?,
    }
    health.set(false);
    gateway.leave().await;
    draining.cancel();
    agent.shutdown(limit).await;
    // The agent's streams have ended. Only final responses remain.
    if tokio::time::timeout(limit, &mut serving).await.is_err() {
        serving.abort();
    }
    Ok(())
}
