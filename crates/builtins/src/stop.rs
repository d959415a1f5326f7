//! Stops work on a blocking thread when its call is dropped or its deadline passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use openskill_proto::v1::{ErrorCode, SkillError};

/// The stop signal of a call. Work checks it between buffers and between files. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct StopSignal {
    dropped: Arc<AtomicBool>,
    deadline: Instant,
}

/// Stops the work when dropped. The future that waits for the work owns it.
pub(super) struct StopOnDrop(Arc<AtomicBool>);

impl StopSignal {
    pub(super) fn at(deadline: Instant) -> (Self, StopOnDrop) {
        let dropped = Arc::<AtomicBool>::default();
        (Self { dropped: Arc::clone(&dropped), deadline }, StopOnDrop(dropped))
    }

    /// Returns whether the work must stop now.
    pub(super) fn is_due(&self) -> bool {
        self.dropped.load(Ordering::Relaxed) || Instant::now() >= self.deadline
    }
}

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the error for a call whose work was stopped.
pub(super) fn stopped_error() -> SkillError {
    SkillError::new(
        ErrorCode::Timeout,
        "the call was stopped before all files were read: name a smaller folder or a file, or use glob",
    )
}
