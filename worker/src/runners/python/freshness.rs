//! Whether files changed since an interpreter loaded them.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Whether one of the files was written, replaced or removed since then. The time of change counts, which no program sets.
pub(super) fn changed_since<'a>(then: SystemTime, files: impl Iterator<Item = &'a Path>) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::MAX);
    let then = then.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    for file in files {
        let Ok(metadata) = std::fs::metadata(file) else { return true };
        let seconds = u64::try_from(metadata.ctime()).unwrap_or_default();
        let nanoseconds = u32::try_from(metadata.ctime_nsec()).unwrap_or_default();
        let changed = Duration::new(seconds, nanoseconds);
        // A time to come is another clock's, and would be newer than any start.
        if changed > then && changed <= now {
            return true;
        }
    }
    false
}
