//! The gateway: accepts calls, finds a worker for each, relays what comes back.
//!
//! ```text
//! client -> server -> face (layers: trace, deadline, origin, arriving) -> gRPC | REST
//!        -> invoke: catalog -> arguments -> circuits -> dispatch: pick -> attempt(s) == wire ==> worker
//!        <- outcome, relay <- events and result
//! ```
//!
//! - [`config`]: settings, resolved
//! - `server`: connections and their bounds; `face`: what every request meets first; `shards`: a thread a core
//! - `grpc`, `rest`: the two faces; `stream`: calls in, events out, for both
//! - `invoke`: the story of a call; `call`: its beginning; `dispatch`: its way to a worker; `outcome`: its end;
//!   `recorder`: its line in the log
//! - `preparation`: a call's arguments, made to fit; `metrics`: what was counted
//! - [`arguments`]: from what a model wrote to what a skill declared; pure
//! - [`export`]: tool definitions for models; pure; `tools`: which skills go into them
//! - `admission`: who gets a place; `memory`: what clients make the gateway hold; `circuit`: which skills are left alone for a while; `idempotency`, `keyed`: what was
//!   asked for before
//! - `catalog`: which skills there are; `workers`: who runs them; `recent`: what of all this is remembered, bounded;
//!   `segments`: by name, behind several locks; `pair`: a session and a skill as one name
//!
//! What is absent: the gateway never reads the disk on a call, never runs a skill, and knows no environment.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

pub mod arguments;
pub mod config;
pub mod export;

mod admission;
mod call;
mod catalog;
mod circuit;
mod dispatch;
mod face;
mod gateway;
mod grpc;
mod health;
mod idempotency;
mod invoke;
mod keyed;
mod layers;
mod memory;
mod metrics;
mod outcome;
mod pair;
mod preparation;
mod recent;
mod recorder;
mod reflection;
mod relay;
mod rest;
mod segments;
mod server;
mod shards;
mod stream;
mod tools;
mod workers;

pub use config::Config;

use gateway::Gateway;
use health::Health;

/// How much longer a shutdown listens after health said NOT_SERVING, for load balancers to hear of it.
const LAME_DUCK: Duration = Duration::from_millis(50);

/// How long a gateway that begins may look for its workers before it serves.
const FIRST_LOOK: Duration = Duration::from_secs(1);

/// Runs a gateway until `shutdown`, then finishes the calls it has, for at most [`Config::drain_timeout`].
///
/// `listeners` has one for each shard. `ready` hears once that all of `want_workers` workers are up.
///
/// # Errors
/// A shard could not start.
pub async fn run(
    config: Config,
    listeners: Vec<TcpListener>,
    want_workers: usize,
    ready: impl FnOnce(Ready) + Send + 'static,
    shutdown: CancellationToken,
) -> std::io::Result<()> {
    let draining = CancellationToken::new();
    let gateway = Gateway::new(config, draining.clone());
    let health = Health::new().await;
    let shard_count = listeners.len();
    let discovery = tokio::spawn(workers::discovery::run(Arc::clone(&gateway), shard_count));
    first_look(&gateway).await;
    let shards = shards::start(&gateway, &health, listeners)?;
    let following = tokio::spawn(health.follow(Arc::clone(&gateway)));
    let announcing = tokio::spawn(announce(Arc::clone(&gateway), want_workers, ready));
    shutdown.cancelled().await;
    draining.cancel();
    tokio::time::sleep(LAME_DUCK).await;
    shards::drain(shards, &gateway, gateway.config.drain_timeout).await;
    for task in [discovery, following, announcing] {
        task.abort();
    }
    Ok(())
}

/// Waits until the workers that there are were reached, so that the first calls do not find an empty catalog. Connections
/// wait meanwhile, at most [`FIRST_LOOK`].
async fn first_look(gateway: &Gateway) {
    let begun = Instant::now();
    while !gateway.workers.were_tried() && begun.elapsed() < FIRST_LOOK {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What a gateway has when it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// Workers that are up.
    pub workers: usize,
    /// Skills that can be called.
    pub skills: usize,
}

/// Waits until the wanted workers are up, and says so once.
async fn announce(gateway: Arc<Gateway>, want_workers: usize, ready: impl FnOnce(Ready)) {
    let mut changes = gateway.catalog.changes();
    loop {
        let workers = gateway.workers.up();
        if workers >= want_workers.max(1) {
            return ready(Ready { workers, skills: gateway.catalog.callable() });
        }
        if changes.changed().await.is_err() {
            return;
        }
    }
}

// A measurement, and no unit test. It is here since what it counts is private.
#[cfg(test)]
#[path = "../benches/instructions/guard.rs"]
mod instructions;
