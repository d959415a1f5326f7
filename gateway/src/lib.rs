//! The gateway: accepts calls, prepares their arguments, finds a worker for each, relays what comes back.
//!
//! A call goes one way, and its rooms stand in that order. Only events travel back.
//!
//! ```text
//! client -> serve (listener, shards, layers, faces: gRPC and REST), or agent (skills for the agent in this process)
//!        -> call (what it asks for; arguments made ready) -> invoke: the story
//!        -> protect (admission, circuits, idempotency) -> dispatch (retry, pick, attempt) == wire ==> worker
//!        <- events <- outcome, result
//! ```
//!
//! - [`config`]: settings, resolved; `gateway`: the state that shards share
//! - `agent`: the agent in this process, or alone
//! - `serve`, `call`, `invoke`, `protect`, `dispatch`: the way of a call
//! - `tools`: which skills a caller can use, and which of them a task needs
//! - `catalog`: the skills there are; `workers`: who runs them
//! - [`arguments`]: from what a model wrote to what a skill declared; pure
//! - [`export`]: tool definitions for models; pure
//! - `mcp`: what is known of clients that speak MCP
//! - `identity`: who calls, and what that allows
//! - `observe`: records events: log lines, metrics, spans
//! - `state`: bounded state by key
//!
//! What is absent: the gateway never reads the disk on a call, never runs a skill, and knows no environment.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_agent::hosted::Setup;
use openskill_agent::skills::Skills;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub mod arguments;
pub mod config;
pub mod export;

mod agent;
mod call;
mod catalog;
mod dispatch;
mod gateway;
mod identity;
mod invoke;
mod mcp;
mod observe;
mod prepare;
mod protect;
mod serve;
mod state;
mod tools;
mod workers;

pub use catalog::suggestion::Suggestion;
pub use config::Config;

use catalog::Catalog;
use catalog::snapshot::callable;
use catalog::suggestion::suggestion;
use gateway::{Gateway, Shard};
use observe::recorder::Recorder;
use serve::connections::peers::Peers;
use serve::connections::roster::Roster;
use serve::faces::grpc::health::Health;
use serve::faces::{self, Faces};
use serve::{connections, shards, stack};

/// Connections of operators.
const MAX_ADMIN_CONNECTIONS: usize = 64;

/// How long a gateway that starts waits for its workers before it serves.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a gateway until `shutdown`, and for [`Config::lame_duck`] longer, while its health says NOT_SERVING. Then finishes the
/// calls in flight, for at most [`Config::drain_timeout`].
///
/// `listeners` has one for each shard. With `admin`, `AdminService` is served there and not on `listeners`. `ready` is called
/// once, when `want_workers` workers are up.
///
/// # Errors
/// A shard or the agent could not start.
pub async fn run(
    config: Config,
    listeners: Vec<TcpListener>,
    admin: Option<TcpListener>,
    want_workers: usize,
    ready: impl FnOnce(Ready) + Send + 'static,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let draining = CancellationToken::new();
    let gateway = Gateway::new(config, draining.clone())?;
    let weak = Arc::downgrade(&gateway);
    openskill_metrics::source::publish(move || Some(weak.upgrade()?.metrics()));
    let health = Health::new();
    let shard_count = listeners.len();
    let discovery = tokio::spawn(workers::discovery::run(Arc::clone(&gateway), shard_count));
    await_discovery(&gateway).await;
    let agent = agent::start(&gateway).await?;
    let served = agent.as_deref().cloned().map(faces::served);
    let shards = shards::start(&gateway, &health, served.as_ref(), listeners, admin.is_none())?;
    let admin = admin.map(|listener| serve_admin(&gateway, &health, listener, &draining)).transpose()?;
    let following = tokio::spawn(health.follow(Arc::clone(&gateway)));
    let files = follow_files(&gateway);
    let announcing = tokio::spawn(announce(Arc::clone(&gateway), want_workers, ready));
    shutdown.cancelled().await;
    gateway.leave().await;
    draining.cancel();
    let limit = gateway.config.drain_timeout;
    tokio::join!(shards::drain(shards, &gateway, limit), async {
        // It stays until the calls in flight have ended: some of them may be agents.
        if let Some(agent) = &agent {
            agent.shutdown(limit).await;
        }
    });
    for task in [discovery, following, announcing].into_iter().chain(admin).chain(files) {
        task.abort();
    }
    finish_recording(gateway).await;
    Ok(())
}

/// Runs an agent that calls `skills` elsewhere until `shutdown`, then stops its turns between two entries, for at most
/// [`Config::drain_timeout`]. Of `config`, the bounds of connections count.
///
/// # Errors
/// The conversations can't be opened, or the listener can't be used.
pub async fn run_agent(
    config: Config,
    setup: Setup,
    skills: Arc<dyn Skills>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let draining = CancellationToken::new();
    let config = Config { workers: Vec::new(), mesh: None, recorder: None, agent: None, ..config };
    let gateway = Gateway::new(config, draining.clone())?;
    let files = follow_files(&gateway);
    let ended = agent::alone::run((gateway, draining), (setup, skills), listener, shutdown).await;
    files.iter().for_each(JoinHandle::abort);
    ended
}

/// Follows the files that may change while the gateway runs, as far as there are any: keys, views, certificates.
fn follow_files(gateway: &Gateway) -> Vec<JoinHandle<()>> {
    let views = Arc::clone(&gateway.mcp.views);
    let views = tokio::spawn(async move { mcp::views::reload::follow(&views).await });
    let keys = gateway.registry.clone().map(|registry| tokio::spawn(identity::reload::follow(registry)));
    let certificate = gateway.config.tls.clone().map(|tls| tokio::spawn(tls.follow()));
    let mesh = gateway.config.mesh.clone().map(|mesh| tokio::spawn(mesh.follow()));
    keys.into_iter().chain(certificate).chain(mesh).chain([views]).collect()
}

/// Writes what the recorder still has.
async fn finish_recording(gateway: Arc<Gateway>) {
    let stop = move || gateway.observer.recorder.iter().for_each(Recorder::stop);
    // A runtime that ends too early loses the calls of the last moment.
    let _ = tokio::task::spawn_blocking(stop).await;
}

/// Serves operators on a listener of their own.
fn serve_admin(
    gateway: &Arc<Gateway>,
    health: &Health,
    listener: TcpListener,
    stop: &CancellationToken,
) -> std::io::Result<JoinHandle<()>> {
    let shard = Shard { gateway: Arc::clone(gateway), number: 0 };
    let is_loopback = listener.local_addr()?.ip().is_loopback();
    let service = stack::stack(gateway, Faces::admin(&shard, health)?, is_loopback, &gateway.operators);
    let roster = Roster::new(MAX_ADMIN_CONNECTIONS, Peers::new(MAX_ADMIN_CONNECTIONS));
    let door = (listener, gateway.config.tls.clone());
    let served = connections::serve(door, service, roster, gateway.tasks.clone(), stop.clone());
    Ok(tokio::spawn(async move {
        if let Err(error) = served.await {
            tracing::error!(%error, "the admin listener failed");
        }
    }))
}

/// Waits until each known worker was tried, so that the first calls do not find an empty catalog. Connections wait
/// meanwhile, at most [`DISCOVERY_TIMEOUT`].
async fn await_discovery(gateway: &Gateway) {
    let begun = Instant::now();
    while !gateway.fleet.were_tried() && begun.elapsed() < DISCOVERY_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A gateway that is ready.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Workers that are up.
    pub workers: usize,
    /// Skills that can be called.
    pub skills: usize,
    /// Skills that are declared and cannot be called.
    pub unavailable: usize,
    /// A first call to try. None if no skill has an example.
    pub suggestion: Option<Suggestion>,
}

impl Ready {
    fn now(workers: usize, catalog: &Catalog) -> Self {
        let snapshot = catalog.snapshot();
        let skills = callable(&snapshot);
        Self { workers, skills, unavailable: snapshot.len() - skills, suggestion: suggestion(&snapshot) }
    }
}

/// Calls `ready` once the wanted workers are up.
async fn announce(gateway: Arc<Gateway>, want_workers: usize, ready: impl FnOnce(Ready)) {
    let mut changes = gateway.catalog.changes();
    loop {
        let workers = gateway.fleet.up();
        if workers >= want_workers.max(1) {
            return ready(Ready::now(workers, &gateway.catalog));
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

// A measurement, not a unit test. It is here because what it counts is private.
#[cfg(test)]
#[path = "../benches/instructions/guard.rs"]
mod instructions;
