//! The gateway: accepts calls, prepares their arguments, dispatches them to workers, and relays the results.
//!
//! A call passes the modules in this order, and its events travel back.
//!
//! ```text
//! client -> serve (listener, shards, layers, faces: gRPC and REST), or agent (skills for the agent in this process)
//!        -> call (request, prepared arguments) -> invoke (runs the steps of a call)
//!        -> protect (admission, circuits, idempotency) -> dispatch (retry, pick, attempt) == wire ==> worker
//!        <- events <- outcome, result
//! ```
//!
//! - [`config`]: resolved settings; `gateway`: the state that shards share
//! - `agent`: the agent, in this process or as a separate server
//! - `serve`, `call`, `invoke`, `protect`, `dispatch`: the path of a call; `streams`: calls with their events
//! - `tools`: which skills a caller can use, and which of them a task needs
//! - `catalog`: the skills; `workers`: the processes that run them
//! - [`arguments`]: turns a model's text into valid arguments; pure
//! - [`export`]: tool definitions for models; pure
//! - `mcp`: state of MCP clients
//! - `long_running`: calls that a store keeps, and the executor that runs them
//! - `shared_counts`: rates and circuits of gateways that share a store
//! - `identity`: who calls, and what they may do
//! - `observe`: turns events into log lines, metrics and spans
//! - `state`: bounded state by key
//!
//! By design, the gateway never reads the disk on a call, never runs a skill, and does not read environment
//! variables.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openskill_agent::hosted::Setup;
use openskill_agent::skills::SkillGateway;
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
mod long_running;
mod mcp;
mod observe;
mod prepare;
mod protect;
mod serve;
mod shared_counts;
mod state;
mod streams;
mod tools;
mod workers;

pub use catalog::suggestion::Suggestion;
pub use config::Config;

use catalog::snapshot::callable;
use catalog::suggestion::suggestion;
use gateway::{Gateway, Shard};
use long_running::webhooks::deliver as webhooks;
use observe::recorder::Recorder;
use serve::connections::TlsListener;
use serve::connections::limiter::ConnectionLimiter;
use serve::connections::peers::Peers;
use serve::faces::grpc::health::Health;
use serve::faces::{self, Faces};
use serve::{connections, shards, stack};

/// The maximum number of connections to the admin listener.
const MAX_ADMIN_CONNECTIONS: usize = 64;

/// How long a starting gateway waits for its workers before it serves.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(1);

/// Runs a gateway until `shutdown`, and for [`Config::lame_duck`] longer, during which its health is NOT_SERVING.
/// Then finishes the calls in flight, within [`Config::drain_timeout`].
///
/// `listeners` contains one for each shard. With `admin`, `AdminService` is served there and not on `listeners`.
/// Calls `ready` once, when `want_workers` workers are up.
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
    openskill_telemetry::metrics::source::publish(move || Some(weak.upgrade()?.metrics()));
    let health = Health::new();
    let shard_count = listeners.len();
    let discovery = tokio::spawn(workers::discovery::run(Arc::clone(&gateway), shard_count));
    await_discovery(&gateway).await;
    long_running::executor::open(&gateway).await.map_err(std::io::Error::other)?;
    let agent = agent::start(&gateway).await?;
    let served = agent.as_deref().cloned().map(faces::serve_agent);
    let shards = shards::start(&gateway, &health, served.as_ref(), listeners, admin.is_none())?;
    let admin = admin.map(|listener| serve_admin(&gateway, &health, listener, &draining)).transpose()?;
    let following = tokio::spawn(health.follow(Arc::clone(&gateway)));
    let files = follow_files(&gateway);
    let executor = Shard { gateway: Arc::clone(&gateway), number: 0 };
    let patience = gateway.config.lame_duck + gateway.config.drain_timeout;
    let executor = tokio::spawn(long_running::executor::execute(executor, shutdown.clone(), patience));
    let keys = tokio::spawn(long_running::keys::maintain(Arc::clone(&gateway)));
    let exchanging = tokio::spawn(shared_counts::run(Arc::clone(&gateway)));
    let webhooks = webhooks::deliver(Arc::clone(&gateway), faces::operation_json, shutdown.clone(), patience);
    let webhooks = tokio::spawn(webhooks);
    let announcing = tokio::spawn(announce(Arc::clone(&gateway), want_workers, ready));
    shutdown.cancelled().await;
    gateway.leave().await;
    draining.cancel();
    let limit = gateway.config.drain_timeout;
    tokio::join!(
        shards::drain(shards, &gateway, limit),
        async {
            // The agent runs until the calls in flight have ended: some of them may be agents.
            if let Some(agent) = &agent {
                agent.shutdown(limit).await;
            }
        },
        async {
            // Fails if it panicked. Then its calls have ended, too.
            let _ = executor.await;
        },
        async {
            let _ = webhooks.await;
        }
    );
    for task in [discovery, following, keys, exchanging, announcing].into_iter().chain(admin).chain(files) {
        task.abort();
    }
    finish_recording(gateway).await;
    Ok(())
}

/// Runs an agent that calls remote `skills` until `shutdown`. Then stops its turns between two entries, within
/// [`Config::drain_timeout`]. Only the connection limits of `config` apply.
///
/// # Errors
/// The conversations can't be opened, or the listener can't be used.
pub async fn run_agent(
    config: Config,
    setup: Setup,
    skills: Arc<dyn SkillGateway>,
    listener: TcpListener,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let draining = CancellationToken::new();
    let config = Config { workers: Vec::new(), mesh: None, recorder: None, agent: None, ..config };
    let gateway = Gateway::new(config, draining.clone())?;
    let files = follow_files(&gateway);
    let ended = agent::alone::run(gateway, draining, setup, skills, listener, shutdown).await;
    files.iter().for_each(JoinHandle::abort);
    ended
}

/// Reloads the configured files that may change while the gateway runs: keys, views, certificates.
fn follow_files(gateway: &Gateway) -> Vec<JoinHandle<()>> {
    let views = Arc::clone(&gateway.mcp.views);
    let views = tokio::spawn(async move { mcp::views::reload::follow(&views).await });
    let keys = gateway.registry.clone().map(|registry| tokio::spawn(identity::reload::follow(registry)));
    let certificate = gateway.config.tls.clone().map(|tls| tokio::spawn(tls.follow()));
    let mesh = gateway.config.mesh.clone().map(|mesh| tokio::spawn(mesh.follow()));
    keys.into_iter().chain(certificate).chain(mesh).chain([views]).collect()
}

/// Writes out what the recorder has queued, and stops it.
async fn finish_recording(gateway: Arc<Gateway>) {
    let stop = move || gateway.observer.recorder.iter().for_each(Recorder::stop);
    // If the runtime ends too early, the last calls are lost.
    let _ = tokio::task::spawn_blocking(stop).await;
}

/// Serves operators on a separate listener.
fn serve_admin(
    gateway: &Arc<Gateway>,
    health: &Health,
    listener: TcpListener,
    stop: &CancellationToken,
) -> std::io::Result<JoinHandle<()>> {
    let shard = Shard { gateway: Arc::clone(gateway), number: 0 };
    let is_loopback = listener.local_addr()?.ip().is_loopback();
    let service = stack::stack(gateway, Faces::admin(&shard, health)?, is_loopback, &gateway.operators);
    let limiter = ConnectionLimiter::new(MAX_ADMIN_CONNECTIONS, Peers::new(MAX_ADMIN_CONNECTIONS));
    let listener = TlsListener { listener, tls: gateway.config.tls.clone() };
    let served = connections::serve(listener, service, limiter, gateway.tasks.clone(), stop.clone());
    Ok(tokio::spawn(async move {
        if let Err(error) = served.await {
            tracing::error!(%error, "the admin listener failed");
        }
    }))
}

/// Waits until a connection to each known worker was attempted, for at most [`DISCOVERY_TIMEOUT`], so that the
/// first calls do not find an empty catalog. New connections wait meanwhile.
async fn await_discovery(gateway: &Gateway) {
    let begun = Instant::now();
    while !gateway.fleet.were_tried() && begun.elapsed() < DISCOVERY_TIMEOUT {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a gateway that has become ready offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The number of workers that are up.
    pub workers: usize,
    /// The number of skills that can be called.
    pub skills: usize,
    /// The number of skills that are declared but can't be called.
    pub unavailable: usize,
    /// A first call to try. None if no skill has a suitable example.
    pub suggestion: Option<Suggestion>,
}

/// Calls `ready` once the wanted workers are up.
async fn announce(gateway: Arc<Gateway>, want_workers: usize, ready: impl FnOnce(Ready)) {
    let mut changes = gateway.catalog.changes();
    loop {
        let workers = gateway.fleet.up();
        if workers >= want_workers.max(1) {
            let snapshot = gateway.catalog.snapshot();
            let skills = callable(&snapshot);
            let unavailable = snapshot.len() - skills;
            return ready(Ready { workers, skills, unavailable, suggestion: suggestion(&snapshot) });
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

// A measurement, not a unit test. It is in this crate because it counts the instructions of private code.
#[cfg(test)]
#[path = "../benches/instructions/guard.rs"]
mod instructions;
