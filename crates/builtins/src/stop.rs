//! Stops work on a blocking thread when its call is dropped or its deadline passes.

use std::time::Instant;

use openskill_proto::v1::{ErrorCode, SkillError};
use tokio_util::sync::{CancellationToken, DropGuard};

/// The stop signal of a call. Work checks it between buffers and between files. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct StopSignal {
    dropped: CancellationToken,
    deadline: Instant,
}

impl StopSignal {
    /// Also returns a guard that stops the work when dropped. The future that waits for the work owns it.
    pub(super) fn at(deadline: Instant) -> (Self, DropGuard) {
        let dropped = CancellationToken::new();
        (Self { dropped: dropped.clone(), deadline }, dropped.drop_guard())
    }

    /// Returns whether the work must stop now.
    pub(super) fn is_due(&self) -> bool {
        self.dropped.is_cancelled() || Instant::now() >= self.deadline
    }
}

/// Returns the error for a call whose work was stopped.
pub(super) fn stopped_error() -> SkillError {
    SkillError::new(
        ErrorCode::Timeout,
        "the call was stopped before all files were read: name a smaller folder or a file, or use glob",
    )
}
