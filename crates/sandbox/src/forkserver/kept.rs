//! A fork server's process that outlives a call. It lives until it exits or its owner drops it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::calls::{CallEnd, Calls};
use crate::protocol::{Exit, RunReport};
#[cfg(any(test, feature = "testing"))]
use crate::protocol::{Loaded, Notice};

/// The timeout for its end after it was killed.
const PATIENCE: Duration = Duration::from_secs(5);

/// The timeout for the supervisor to send a signal.
const SIGNAL: Duration = Duration::from_secs(1);

/// A process that outlives a call. Dropping it kills its process tree.
pub struct KeptProcess {
    /// `None` after the process has ended.
    ended: Option<oneshot::Receiver<CallEnd>>,
    call: u64,
    /// Whether its owner has seen that it runs.
    began: bool,
    calls: Arc<Calls>,
}

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
    pub(super) fn new(ended: oneshot::Receiver<CallEnd>, call: u64, calls: &Arc<Calls>) -> Self {
        Self { ended: Some(ended), call, began: false, calls: Arc::clone(calls) }
    }

    /// Records that its owner has seen that it runs.
    pub fn has_begun(&mut self) {
        self.began = true;
    }

    /// Waits until its process tree has ended. Cancel safe.
    pub async fn wait(&mut self) -> KeptProcessEnd {
        let Some(ended) = &mut self.ended else { return KeptProcessEnd::Unknown };
        let end = ended.await.unwrap_or(CallEnd::Unknown);
        self.ended = None;
        match end {
            CallEnd::Report(RunReport::Ended { exceeded: Some(reason), .. }) => KeptProcessEnd::Exceeded(reason),
            CallEnd::Report(RunReport::Ended { exit, exceeded: None, .. }) => KeptProcessEnd::Exited(exit),
            CallEnd::NotStarted | CallEnd::Report(RunReport::NotStarted { .. }) => KeptProcessEnd::NotStarted,
            CallEnd::Unknown => KeptProcessEnd::Unknown,
        }
    }

    /// Returns whether it is alive, as far as the worker knows.
    pub fn is_alive(&self) -> bool {
        self.ended.as_ref().is_some_and(oneshot::Receiver::is_empty)
    }

    /// Sends SIGINT. Returns whether the supervisor confirmed this. If not, the process may receive the signal at
    /// any later time, and must not be reused.
    #[must_use]
    pub async fn interrupt(&self) -> bool {
        tokio::time::timeout(SIGNAL, self.calls.interrupt(self.call)).await.is_ok()
    }

    /// Kills its process tree, and waits until it has ended.
    pub async fn end(mut self) {
        self.calls.kill_kept(self.call, self.began);
        let _ = tokio::time::timeout(PATIENCE, self.wait()).await;
    }
}

impl Drop for KeptProcess {
    fn drop(&mut self) {
        if self.ended.is_some() {
            self.calls.kill_kept(self.call, self.began);
        }
    }
}

/// Replaces the supervisor of a kept process, for tests.
#[cfg(any(test, feature = "testing"))]
pub struct Unattended(Arc<Calls>);

#[cfg(any(test, feature = "testing"))]
#[allow(clippy::expect_used, reason = "only tests use it")]
impl Unattended {
    const CALL: u64 = 7;

    /// Creates a running process.
    pub fn start() -> (KeptProcess, Self) {
        let calls = Arc::new(Calls::new());
        let loaded = Loaded { files: Vec::new(), not_preloaded: Vec::new() };
        calls.hear(Notice::Ready(loaded)).expect("it starts");
        let ended = calls.open(Self::CALL, None).expect("it takes calls");
        (KeptProcess::new(ended, Self::CALL, &calls), Self(calls))
    }

    /// Waits for an order without executing it.
    pub async fn wait_for_order(&self) {
        self.0.wake.notified().await;
    }

    /// Waits for the order to interrupt, and confirms it.
    pub async fn confirm_interrupt(&self) {
        self.wait_for_order().await;
        self.0.hear(Notice::Interrupted(Self::CALL)).expect("it serves");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_known_whether_a_signal_was_sent() {
        let (kept, supervisor) = Unattended::start();
        let (sent, ()) = tokio::join!(kept.interrupt(), supervisor.confirm_interrupt());
        assert!(sent);
        assert!(!kept.interrupt().await, "nobody said so");
    }
}
