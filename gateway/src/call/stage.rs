//! How far a running call has come: written by the code that runs it, for those who list running calls.

use std::sync::Arc;

use parking_lot::Mutex;

/// How far a call has come.
#[derive(Debug, Default)]
pub(crate) struct CallStage(Mutex<LatestAttempt>);

/// The latest attempt of a call.
#[derive(Debug, Default, Clone)]
pub(crate) struct LatestAttempt {
    /// Counts from 1. 0 if no attempt began.
    pub(crate) number: u32,
    /// The address of its worker. None for a skill that is an agent.
    pub(crate) worker: Option<Arc<str>>,
    pub(crate) is_running: bool,
}

impl CallStage {
    /// An attempt began, at this worker.
    pub(crate) fn begin_attempt(&self, number: u32, worker: Option<&Arc<str>>) {
        *self.0.lock() = LatestAttempt { number, worker: worker.cloned(), is_running: true };
    }

    pub(crate) fn end_attempt(&self) {
        self.0.lock().is_running = false;
    }

    pub(crate) fn latest_attempt(&self) -> LatestAttempt {
        self.0.lock().clone()
    }
}
