//! A kept process without a supervisor, for unit tests of this crate and of others.

#![allow(clippy::expect_used, reason = "only tests use it")]

use std::sync::Arc;

use super::calls::{Calls, PendingCall};
use super::kept::KeptProcess;
use crate::protocol::{Loaded, Notice};

/// Replaces the supervisor of a kept process, for tests.
pub struct Unattended(Arc<Calls>);

impl Unattended {
    const CALL: u64 = 7;

    /// Creates a running process.
    pub fn start() -> (KeptProcess, Self) {
        let calls = Arc::new(Calls::new());
        let loaded = Loaded::default();
        calls.hear(Notice::Ready(loaded)).expect("it starts");
        let ended = calls.open(Self::CALL, None).expect("it takes calls");
        let pending =
            PendingCall { ended: Some(ended), call: Self::CALL, calls: Arc::clone(&calls), began: Some(false) };
        (KeptProcess(pending), Self(calls))
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
