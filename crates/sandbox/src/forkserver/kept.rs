//! A fork server's process that outlives a call. It lives until it exits or its owner drops it.

use std::time::Duration;

use tokio::sync::oneshot;

use super::calls::{CallEnd, PendingCall};
use crate::protocol::{Exit, RunReport};

/// The timeout for its end after it was killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// The timeout for the supervisor to send a signal.
const SIGNAL: Duration = Duration::from_secs(1);

/// A process that outlives a call. Dropping it kills its process tree.
pub struct KeptProcess(pub(super) PendingCall);

/// The ways in which a kept process can end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptProcessEnd {
    /// It never started.
    NotStarted,
    /// It exited without being killed.
    Exited(Exit),
    /// It exceeded a limit, which this sentence explains.
    Exceeded(String),
    /// The connection to the supervisor was lost.
    Unknown,
}

impl KeptProcess {
    /// Records that its owner has seen that it runs.
    pub fn has_begun(&mut self) {
        self.0.began = Some(true);
    }

    /// Waits until its process tree has ended. Cancel safe.
    pub async fn wait(&mut self) -> KeptProcessEnd {
        match self.0.wait().await {
            CallEnd::Report(RunReport::Ended { exceeded: Some(reason), .. }) => KeptProcessEnd::Exceeded(reason),
            CallEnd::Report(RunReport::Ended { exit, exceeded: None, .. }) => KeptProcessEnd::Exited(exit),
            CallEnd::NotStarted | CallEnd::Report(RunReport::NotStarted { .. }) => KeptProcessEnd::NotStarted,
            CallEnd::Unknown => KeptProcessEnd::Unknown,
        }
    }

    /// Returns whether it is alive, as far as the worker knows.
    pub fn is_alive(&self) -> bool {
        self.0.ended.as_ref().is_some_and(oneshot::Receiver::is_empty)
    }

    /// Sends SIGINT. Returns whether the supervisor confirmed this. If not, the process may receive the signal at
    /// any later time, and must not be reused.
    #[must_use]
    pub async fn interrupt(&self) -> bool {
        tokio::time::timeout(SIGNAL, self.0.calls.interrupt(self.0.call)).await.is_ok()
    }

    /// Kills its process tree, and waits until it has ended.
    pub async fn end(mut self) {
        self.0.kill();
        let _ = tokio::time::timeout(PATIENCE, self.wait()).await;
    }
}

#[cfg(test)]
mod tests {
    use crate::forkserver::testing::Unattended;

    #[tokio::test]
    async fn it_is_known_whether_a_signal_was_sent() {
        let (kept, supervisor) = Unattended::start();
        let (sent, ()) = tokio::join!(kept.interrupt(), supervisor.confirm_interrupt());
        assert!(sent);
        assert!(!kept.interrupt().await, "nobody said so");
    }
}
