//! The limits of an installation, and the errors for an unusable store.

use std::io;

use openskill_proto::v1::{Blame, ErrorCode, SkillError};
use openskill_telemetry::log::admits;

/// The maximum size of a wheel, and of all wheels of a request together, in bytes.
pub(super) const MAX_WHEEL_BYTES: u64 = 256 * 1024 * 1024;
pub(super) const MAX_DOWNLOAD_BYTES: u64 = 2 * MAX_WHEEL_BYTES;

/// The maximum size of an unpacked wheel, in bytes and in files.
pub(super) const MAX_UNPACKED_BYTES: u64 = 1024 * 1024 * 1024;
pub(super) const MOST_FILES: u64 = 20_000;

/// How many installations may run concurrently, and how many may wait for their turn.
pub(super) const MOST_AT_ONCE: usize = 2;
pub(super) const MOST_WAITING: usize = 8;

/// The maximum number of entries in the store: wheels and sets of wheels.
pub(super) const MOST_ENTRIES: usize = 512;

/// The maximum size of all unpacked wheels in the store, in bytes. Beyond it, the least recently used ones are
/// removed.
pub(super) const MOST_BYTES: u64 = 8 * MAX_UNPACKED_BYTES;

/// Creates the error for a worker that can't install packages until an operator changes something. The skill's
/// circuit breaker may open, but the worker stays available for other skills.
pub(in crate::runners::sandbox) fn unable(reason: impl Into<String>) -> SkillError {
    SkillError::new(ErrorCode::Unavailable, reason).with_blame(Blame::Skill)
}

/// Creates the error for a package that can't be installed. Others may work, so the skill is not to blame.
pub(super) fn unfit(reason: impl Into<String>) -> SkillError {
    SkillError::new(ErrorCode::ExecutionError, reason).with_blame(Blame::Caller)
}

/// Logs a failure to write to the store, and returns the error for callers.
pub(super) fn storage(error: &io::Error) -> SkillError {
    if admits("could not store a package that a session installed") {
        tracing::warn!(%error, "could not store a package that a session installed");
    }
    match error.kind() {
        io::ErrorKind::InvalidData => unfit(error.to_string()),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            SkillError::new(ErrorCode::ToolInvocationError, "the disk with the packages of sessions is full")
        }
        _ => SkillError::new(ErrorCode::ToolInvocationError, "the directory of packages can't be used on this worker"),
    }
}

/// Runs blocking disk operations on the blocking pool.
///
/// # Errors
/// Returns the error of [`storage`].
pub(super) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, SkillError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other).flatten().map_err(|error| storage(&error))
}
