//! One thread a shard, each with a runtime of its own and a listener: a call stays on the core that took it.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _};
use openskill_proto::local::LocalStream;
use tokio::sync::oneshot;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tokio_util::sync::CancellationToken;

use crate::linger::Lingering;
use crate::listen::Listener;
use crate::worker::Worker;

/// How long the answers of ended calls may take to get out.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// The running shards.
pub(crate) struct Shards {
    shards: Vec<(JoinHandle<()>, oneshot::Receiver<()>)>,
    stop: CancellationToken,
    abandon: CancellationToken,
}

/// Starts a shard for each listener.
pub(crate) fn start(worker: &Arc<Worker>, listeners: Vec<Listener>) -> std::io::Result<Shards> {
    let (stop, abandon) = (CancellationToken::new(), CancellationToken::new());
    let mut shards = Vec::with_capacity(listeners.len());
    for (number, listener) in listeners.into_iter().enumerate() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (worker, stop, abandon) = (Arc::clone(worker), stop.clone(), abandon.clone());
        let (ended, end) = oneshot::channel();
        let thread = std::thread::Builder::new().name(format!("worker-{number}")).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    served = serve(Arc::clone(&worker), listener, stop) => {
                        if let Err(error) = served {
                            tracing::error!(%error, "a shard failed");
                        }
                        worker.tasks.wait().await;
                    }
                    () = abandon.cancelled() => {}
                }
                // Runs that were dropped end here, where their tasks live.
                worker.launcher.finished().await;
            });
            let _ = ended.send(());
        })?;
        shards.push((thread, end));
    }
    Ok(Shards { shards, stop, abandon })
}

impl Shards {
    /// Stops accepting, waits for the calls under way, and after `limit` ends those that are left.
    pub(crate) async fn drain(self, worker: &Worker, limit: Duration) {
        self.stop.cancel();
        worker.tasks.close();
        let (threads, ends): (Vec<_>, Vec<_>) = self.shards.into_iter().unzip();
        let mut all = std::pin::pin!(futures_util::future::join_all(ends));
        if tokio::time::timeout(limit, &mut all).await.is_err() {
            tracing::warn!(limit_ms = limit.as_millis() as u64, "calls were still running and are ended");
            worker.abandoned.cancel();
            if tokio::time::timeout(LAST_WORDS, &mut all).await.is_err() {
                self.abandon.cancel();
                all.await;
            }
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
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
