//! One thread a shard, each with a runtime of its own, a listener, and its own connections to the workers.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use crate::gateway::Gateway;
use crate::health::Health;
use crate::server;

/// The running shards.
pub(crate) struct Shards {
    shards: Vec<(JoinHandle<()>, oneshot::Receiver<()>)>,
    stop: CancellationToken,
    abandon: CancellationToken,
}

/// Starts a shard for each listener.
pub(crate) fn start(gateway: &Arc<Gateway>, health: &Health, listeners: Vec<TcpListener>) -> std::io::Result<Shards> {
    let (stop, abandon) = (CancellationToken::new(), CancellationToken::new());
    let connections = Arc::new(Semaphore::new(gateway.config.max_connections));
    let mut shards = Vec::with_capacity(listeners.len());
    for (number, listener) in listeners.into_iter().enumerate() {
        let stack = server::stack(gateway, number, health)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, abandon, connections) = (stop.clone(), abandon.clone(), Arc::clone(&connections));
        let (ended, end) = oneshot::channel();
        let thread = std::thread::Builder::new().name(format!("gateway-{number}")).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    served = server::serve(listener, stack, connections, stop) => {
                        if let Err(error) = served {
                            tracing::error!(%error, "a shard failed");
                        }
                    }
                    () = abandon.cancelled() => {}
                }
            });
            let _ = ended.send(());
        })?;
        shards.push((thread, end));
    }
    Ok(Shards { shards, stop, abandon })
}

impl Shards {
    /// Stops accepting, waits for the calls under way, and after `limit` drops those that are left.
    pub(crate) async fn drain(self, limit: Duration) {
        self.stop.cancel();
        let (threads, ends): (Vec<_>, Vec<_>) = self.shards.into_iter().unzip();
        let mut all = std::pin::pin!(futures_util::future::join_all(ends));
        if tokio::time::timeout(limit, &mut all).await.is_err() {
            tracing::warn!(limit_ms = limit.as_millis() as u64, "connections were still busy and are closed");
            self.abandon.cancel();
            all.await;
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
}
