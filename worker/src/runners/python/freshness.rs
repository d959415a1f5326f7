//! Checks whether files changed after an interpreter loaded them.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Returns whether any of the files was written, replaced or removed after `then`. Uses the inode change time,
/// which programs can't set.
pub(super) fn changed_since<'a>(then: SystemTime, files: impl Iterator<Item = &'a Path>) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX);
    let then = then.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    for file in files {
        let Ok(metadata) = std::fs::metadata(file) else { return true };
        let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
        let nanoseconds = u32::try_from(metadata.ctime_nsec()).unwrap_or_default();
        let changed = Duration::new(seconds, nanoseconds);
        // A time in the future comes from another clock. It would be later than any start.
        if changed > then && changed <= now {
            return true;
        }
    }
    false
}
