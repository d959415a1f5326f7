//! One thread a shard, each with a runtime of its own and a listener: a call stays on the core that took it.

use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use openskill_net::linger::Lingering;
use openskill_net::listen::Listener;
use openskill_net::local::LocalStream;
use openskill_net::shards::{Shards, Shutdown};
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;

use crate::worker::Worker;

/// How long the answers of ended calls may take to get out.
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
            // Runs that were dropped end here, where their tasks live.
            worker.launcher.finished().await;
        })?;
    }
    Ok(shards)
}

/// Stops accepting, waits for the calls under way, and after `limit` ends those that are left.
pub(crate) async fn drain(shards: Shards, worker: &Worker, limit: Duration) {
    shards.stop();
    worker.tasks.close();
    if tokio::time::timeout(limit, shards.ended()).await.is_err() {
        tracing::warn!(limit_ms = limit.as_millis() as u64, "calls were still running and are ended");
        worker.abandoned.cancel();
        let _ = tokio::time::timeout(LAST_WORDS, shards.ended()).await;
    }
    shards.join().await;
}

async fn serve(
    worker: Arc<Worker>,
    listener: Listener,
    stop: CancellationToken,
) -> Result<(), Box<dyn std::error::Error>> {
    let tasks = worker.tasks.clone();
    let router = crate::server::router(worker);
    let stopped = stop.cancelled_owned();
    match listener {
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
