//! A process of a fork server that outlives a call: until it exits, or its owner drops it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::calls::{Calls, End};
use crate::process::protocol::{Exit, Report};
#[cfg(test)]
use crate::process::protocol::{Loaded, Notice};

/// How long to wait for its end after the kill.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long the supervisor may take to send a signal.
const SIGNAL: Duration = Duration::from_secs(1);

/// The process. Dropping it kills its process tree.
pub(crate) struct Kept {
    /// None: it has ended.
    ended: Option<oneshot::Receiver<End>>,
    call: u64,
    /// Its owner has seen it run.
    began: bool,
    calls: Arc<Calls>,
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum KeptEnd {
    /// It never began.
    NotStarted,
    /// By itself.
    Exited(Exit),
    /// It exceeded a limit: a sentence.
    Exceeded(String),
    /// The supervisor was lost.
    Unknown,
}

impl Kept {
    pub(super) fn new(ended: oneshot::Receiver<End>, call: u64, calls: &Arc<Calls>) -> Self {
        Self { ended: Some(ended), call, began: false, calls: Arc::clone(calls) }
    }

    /// Records that its owner has seen it run.
    pub(crate) fn has_begun(&mut self) {
        self.began = true;
    }

    /// Waits until its process tree is gone. Cancel safe.
    pub(crate) async fn ended(&mut self) -> KeptEnd {
        let Some(ended) = &mut self.ended else { return KeptEnd::Unknown };
        let end = ended.await.unwrap_or(End::Unknown);
        self.ended = None;
        match end {
            End::Report(Report::Ended { exceeded: Some(reason), .. }) => KeptEnd::Exceeded(reason),
            End::Report(Report::Ended { exit, exceeded: None, .. }) => KeptEnd::Exited(exit),
            End::NotStarted | End::Report(Report::NotStarted { .. }) => KeptEnd::NotStarted,
            End::Unknown => KeptEnd::Unknown,
        }
    }

    /// Whether it is alive, as far as the worker knows.
    pub(crate) fn is_alive(&self) -> bool {
        self.ended.as_ref().is_some_and(oneshot::Receiver::is_empty)
    }

    /// Sends SIGINT. Returns whether the supervisor confirmed it. Otherwise the process may receive the signal at any later
    /// time, and must not be reused.
    #[must_use]
    pub(crate) async fn interrupt(&self) -> bool {
        tokio::time::timeout(SIGNAL, self.calls.interrupt(self.call)).await.is_ok()
    }

    /// Kills its process tree and waits until it is gone.
    pub(crate) async fn end(mut self) {
        self.calls.kill_kept(self.call, self.began);
        let _ = tokio::time::timeout(PATIENCE, self.ended()).await;
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.ended.is_some() {
            self.calls.kill_kept(self.call, self.began);
        }
    }
}

/// A process without a supervisor, for tests.
#[cfg(test)]
pub(crate) struct Unattended(Arc<Calls>);

#[cfg(test)]
impl Unattended {
    const CALL: u64 = 7;

    pub(crate) fn start() -> (Kept, Self) {
        let calls = Arc::new(Calls::new());
        let loaded = Loaded { files: Vec::new(), not_preloaded: Vec::new() };
        calls.hear(Notice::Ready(loaded)).expect("it starts");
        let ended = calls.open(Self::CALL, None).expect("it takes calls");
        (Kept::new(ended, Self::CALL, &calls), Self(calls))
    }

    /// Waits for an order, and does not carry it out.
    pub(crate) async fn told(&self) {
        self.0.wake.notified().await;
    }

    /// Waits for the order to interrupt, and says that it was done.
    pub(crate) async fn interrupts(&self) {
        self.told().await;
        self.0.hear(Notice::Interrupted(Self::CALL)).expect("it serves");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_known_whether_a_signal_was_sent() {
        let (kept, supervisor) = Unattended::start();
        let (sent, ()) = tokio::join!(kept.interrupt(), supervisor.interrupts());
        assert!(sent);
        assert!(!kept.interrupt().await, "nobody said so");
    }
}
