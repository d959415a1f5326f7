//! The claim of an operation under which its call runs.

use std::sync::atomic::{AtomicBool, Ordering};

use openskill_proto::v1::OperationRun;

/// This gateway's claim of an operation.
#[derive(Debug)]
pub(crate) struct CallClaim {
    pub(crate) run: OperationRun,
    is_lost: AtomicBool,
}

impl CallClaim {
    pub(crate) fn new(run: OperationRun) -> Self {
        Self { run, is_lost: AtomicBool::new(false) }
    }

    /// Another gateway may have the operation.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}
