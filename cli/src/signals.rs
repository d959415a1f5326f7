//! SIGTERM and SIGINT: the first signal starts a graceful shutdown, the second stops at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that stop this process.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Installs the handlers.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Runs `work`, and cancels `shutdown` on the first signal, so that `work` can drain. Returns `None` if a
    /// second signal stopped it.
    pub(crate) async fn guard<T>(mut self, shutdown: CancellationToken, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            ended = &mut work => return Some(ended),
            () = self.next() => {
                tracing::info!("shutting down: in-flight calls finish; a second signal stops at once");
                shutdown.cancel();
            }
        }
        tokio::select! {
            ended = work => Some(ended),
            () = self.next() => None,
        }
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
