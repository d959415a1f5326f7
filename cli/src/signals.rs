//! SIGTERM and Ctrl-C: the first asks for an orderly end, the second for one at once.

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// The signals that end a process.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    /// Listens from now on.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    /// Runs `work`, which ends in order once `shutdown` is cancelled. None if a second signal cut it short.
    pub(crate) async fn guard<T>(mut self, shutdown: CancellationToken, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        tokio::select! {
            ended = &mut work => return Some(ended),
            () = self.next() => {
                tracing::info!("shutting down: calls under way finish; a second signal stops at once");
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
