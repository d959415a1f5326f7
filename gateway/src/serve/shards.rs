//! One thread a shard, each with a runtime of its own, a listener, and its own connections to the workers.

use std::net::TcpListener;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use tokio::sync::{Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::connections;
use super::faces::Faces;
use super::faces::grpc::health::Health;
use super::stack::stack;
use crate::gateway::{Gateway, Shard};

/// How long connections stay after the last call, for its answer to get out.
const LINGER: Duration = Duration::from_secs(1);

/// The running shards.
pub(crate) struct Shards {
    shards: Vec<(JoinHandle<()>, oneshot::Receiver<()>)>,
    stop: CancellationToken,
    abandon: CancellationToken,
}

/// A shard's stack. Checking arguments recurses: for each level of a call, once for each subschema that leads to another.
const STACK: usize = 16 * 1024 * 1024;

/// Starts a shard for each listener. `with_admin`: they serve `AdminService` too.
pub(crate) fn start(
    gateway: &Arc<Gateway>,
    health: &Health,
    listeners: Vec<TcpListener>,
    with_admin: bool,
) -> std::io::Result<Shards> {
    let (stop, abandon) = (CancellationToken::new(), CancellationToken::new());
    // A budget for each: a shard that waits for a connection must not keep another from taking one.
    let budget = (gateway.config.max_connections / listeners.len().max(1)).max(1);
    let mut shards = Vec::with_capacity(listeners.len());
    for (number, listener) in listeners.into_iter().enumerate() {
        let shard = Shard { gateway: Arc::clone(gateway), number };
        let is_loopback = listener.local_addr()?.ip().is_loopback();
        let service = stack(gateway, Faces::public(&shard, health, with_admin)?, is_loopback);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (stop, abandon, limit) = (stop.clone(), abandon.clone(), Arc::new(Semaphore::new(budget)));
        let tasks = gateway.tasks.clone();
        let (ended, end) = oneshot::channel();
        let thread =
            std::thread::Builder::new().name(format!("gateway-{number}")).stack_size(STACK).spawn(move || {
                runtime.block_on(async {
                    tokio::select! {
                        served = connections::serve(listener, service, limit, tasks.clone(), stop) => {
                            if let Err(error) = served {
                                tracing::error!(%error, "a shard failed");
                            }
                            // Calls that go on without their clients, and connections that linger.
                            tasks.wait().await;
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
    /// Stops accepting, waits for the calls under way, and drops what is left: calls after `limit`, and streams that
    /// have no call (a client that watches our health, say) soon after the last call.
    pub(crate) async fn drain(self, gateway: &Gateway, limit: Duration) {
        self.stop.cancel();
        gateway.tasks.close();
        let (threads, ends): (Vec<_>, Vec<_>) = self.shards.into_iter().unzip();
        let mut all = std::pin::pin!(futures_util::future::join_all(ends));
        let done = tokio::select! {
            _ = &mut all => true,
            () = tokio::time::sleep(limit) => {
                tracing::warn!(limit_ms = limit.as_millis() as u64, "calls were still running and are ended");
                false
            }
            () = no_calls_for(gateway, LINGER) => false,
        };
        if !done {
            self.abandon.cancel();
            all.await;
        }
        for thread in threads {
            let _ = thread.join();
        }
    }
}

/// Waits until there was no call for a while, and no large answer on its way, so that the last answers are out.
async fn no_calls_for(gateway: &Gateway, quiet: Duration) {
    let step = quiet / 10;
    let mut quiet_steps = 0;
    while quiet_steps < 10 {
        tokio::time::sleep(step).await;
        let is_quiet = gateway.in_flight() == 0 && gateway.outbound.held() == 0;
        quiet_steps = if is_quiet { quiet_steps + 1 } else { 0 };
    }
}
