//! The claim of an operation under which its call runs.

use std::sync::atomic::{AtomicBool, Ordering};

use openskill_proto::v1::OperationRun;

/// This gateway's claim of an operation.
#[derive(Debug)]
pub(crate) struct CallClaim {
    pub(crate) run: OperationRun,
    is_stored: AtomicBool,
    is_lost: AtomicBool,
}

impl CallClaim {
    /// The claim of an operation in the store.
    pub(crate) fn new(run: OperationRun) -> Self {
        Self { run, is_stored: AtomicBool::new(true), is_lost: AtomicBool::new(false) }
    }

    /// The claim of a call that may become the operation with this id.
    pub(crate) fn reserve(operation_id: String) -> Self {
        let run = OperationRun { operation_id, epoch: 1 };
        Self { is_stored: AtomicBool::new(false), ..Self::new(run) }
    }

    /// The call is an operation from now on.
    pub(crate) fn store(&self) {
        self.is_stored.store(true, Ordering::Relaxed);
    }

    /// Whether the store has the operation, so that other gateways see it.
    pub(crate) fn is_stored(&self) -> bool {
        self.is_stored.load(Ordering::Relaxed)
    }

    /// Another gateway may have the operation.
    pub(crate) fn lose(&self) {
        self.is_lost.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost.load(Ordering::Relaxed)
    }
}
