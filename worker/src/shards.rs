//! Runs one thread per shard, each with its own runtime and listener. A call stays on the thread that accepted it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use openskill_net::linger::Lingering;
use openskill_net::listen::Listener;
use openskill_net::local::LocalStream;
use openskill_net::shards::{Shards, Shutdown};
use openskill_net::tls::handshakes::Handshakes;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;

use crate::worker::Worker;

/// The maximum time for sending the answers of ended calls.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Starts a shard for each listener.
pub(crate) fn start(worker: &Arc<Worker>, listeners: Vec<Listener>) -> std::io::Result<Shards> {
    let mut shards = Shards::new("worker");
    for listener in listeners {
        let worker = Arc::clone(worker);
        shards.spawn(move |shutdown: Shutdown| async move {
            let serve = async {
                if let Err(error) = serve(Arc::clone(&worker), listener, shutdown.stop.clone()).await {
                    tracing::error!(%error, "a shard failed");
                }
                worker.tasks.wait().await;
            };
            shutdown.unless_abandoned(serve).await;
            // Dropped runs end here, on the runtime of their tasks.
            worker.launcher.wait_finished().await;
        })?;
    }
    Ok(shards)
}

/// Stops accepting calls, waits for running calls, and ends the remaining ones after `limit`.
pub(crate) async fn drain(shards: Shards, worker: &Worker, limit: Duration) {
    shards.stop();
    worker.tasks.close();
    if tokio::time::timeout(limit, shards.wait_ended()).await.is_err() {
        tracing::warn!(limit_ms = limit.as_millis() as u64, "calls are still running; ending them");
        worker.abandoned.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, shards.wait_ended()).await;
    }
    shards.join().await;
}

async fn serve(
    worker: Arc<Worker>,
    listener: Listener,
    stop: CancellationToken,
) -> Result<(), Box<dyn std::error::Error>> {
    let (tasks, mesh) = (worker.tasks.clone(), worker.config.mesh.clone());
    let router = crate::server::router(worker);
    let stopped = stop.cancelled_owned();
    match listener {
        Listener::Tcp(listener) if let Some(mesh) = mesh => {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            let incoming =
                stream::unfold(Handshakes::new(listener, mesh, log_refused_connection), move |mut handshakes| {
                    let tasks = tasks.clone();
                    async move {
                        let stream = Lingering::new(handshakes.next().await, tasks);
                        Some((Ok::<_, std::io::Error>(stream), handshakes))
                    }
                });
            router.serve_with_incoming_shutdown(incoming, stopped).await?;
        }
        Listener::Tcp(listener) => {
            let incoming = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener)?);
            let incoming = incoming.map_ok(move |stream| {
                let _ = stream.set_nodelay(true);
                Lingering::new(stream, tasks.clone())
            });
            router.serve_with_incoming_shutdown(incoming, stopped).await?;
        }
        Listener::Unix(listener) => {
            let incoming = UnixListenerStream::new(tokio::net::UnixListener::from_std(listener)?);
            let incoming = incoming.map(move |stream| {
                let stream = LocalStream::new(stream?.into_std()?)?;
                Ok::<_, std::io::Error>(Lingering::new(stream, tasks.clone()))
            });
            router.serve_with_incoming_shutdown(incoming, stopped).await?;
        }
    }
    Ok(())
}

/// Logs a client that does not use TLS or is not a gateway of the mesh.
fn log_refused_connection(peer: SocketAddr, error: &std::io::Error) {
    if openskill_telemetry::log::admits("connections refused by the mesh") {
        tracing::warn!(%peer, %error, "a connection was refused: it is not from a gateway of the mesh");
    }
}
