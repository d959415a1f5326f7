//! What an installation may take, and what is said when the store can't be used.

use std::io;

use openskill_log::admits;
use openskill_proto::v1::{Blame, ErrorCode, SkillError};

/// The largest wheel, and all wheels of a request together, in bytes.
pub(super) const MAX_WHEEL_BYTES: u64 = 256 * 1024 * 1024;
pub(super) const MAX_DOWNLOAD_BYTES: u64 = 2 * MAX_WHEEL_BYTES;

/// What a wheel may have when it is unpacked, in bytes and in files.
pub(super) const MAX_UNPACKED_BYTES: u64 = 1024 * 1024 * 1024;
pub(super) const MOST_FILES: u64 = 20_000;

/// Installations at once, and those that wait for their turn.
pub(super) const MOST_AT_ONCE: usize = 2;
pub(super) const MOST_WAITING: usize = 8;

/// Entries of the store: wheels, and sets of them.
pub(super) const MOST_ENTRIES: usize = 512;

/// What all wheels of the store may have when they are unpacked, in bytes, before the least recently used ones are removed.
pub(super) const MOST_BYTES: u64 = 8 * MAX_UNPACKED_BYTES;

/// No package can be installed here, until an operator changes something. The circuit breaker of the skill may open: the
/// worker is fit for other skills and stays.
pub(in crate::runners::sandbox) fn unable(reason: impl Into<String>) -> SkillError {
    SkillError::new(ErrorCode::Unavailable, reason).with_blame(Blame::Skill)
}

/// A package that can't be installed. Another may well be: it is not the skill's fault.
pub(super) fn unfit(reason: impl Into<String>) -> SkillError {
    SkillError::new(ErrorCode::ExecutionError, reason).with_blame(Blame::Caller)
}

/// Why a file of the store can't be written, for callers.
pub(super) fn storage(error: &io::Error) -> SkillError {
    if admits("a package of a session was not stored") {
        tracing::warn!(%error, "a package of a session was not stored");
    }
    match error.kind() {
        io::ErrorKind::InvalidData => unfit(error.to_string()),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            SkillError::new(ErrorCode::ToolInvocationError, "the disk with the packages of sessions is full")
        }
        _ => SkillError::new(ErrorCode::ToolInvocationError, "the directory of packages can't be used on this worker"),
    }
}

/// Works on the disk for as long as it takes.
///
/// # Errors
/// As [`storage`] says it.
pub(super) async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, SkillError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(io::Error::other).flatten().map_err(|error| storage(&error))
}
