//! The process-wide quota for log lines that clients, skills and remote servers can trigger.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::Mutex;

use crate::log::sampler::Sampler;

/// The default limit, in lines per second.
pub const DEFAULT_LIMIT: u32 = 10;

static SAMPLER: Mutex<Sampler> = Mutex::new(Sampler::new());
static LIMIT: AtomicU32 = AtomicU32::new(DEFAULT_LIMIT);

/// Sets the maximum number of lines of one kind per second. 0 means no limit.
pub fn set_limit(lines_per_second: u32) {
    LIMIT.store(lines_per_second, Ordering::Relaxed);
}

/// Whether to log a line of this kind now. Suppressed lines are counted for [`report`].
#[must_use]
pub fn admits(kind: &'static str) -> bool {
    let limit = LIMIT.load(Ordering::Relaxed);
    limit == 0 || SAMPLER.lock().admits(kind, limit, Instant::now())
}

/// Logs the number of suppressed lines of each kind since the last report. Call it once a second.
pub fn report() {
    let left_out = SAMPLER.lock().report();
    for (kind, left_out) in left_out {
        tracing::warn!(target: "openskill::log", kind, left_out, "too many log lines of one kind");
    }
}
