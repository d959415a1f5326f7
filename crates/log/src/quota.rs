//! The quota of this process for log lines that others can cause.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::sampler::Sampler;

/// The limit unless [`set_limit`] sets another one.
pub const DEFAULT_LIMIT: u32 = 10;

static SAMPLER: Mutex<Sampler> = Mutex::new(Sampler::new());
static LIMIT: AtomicU32 = AtomicU32::new(DEFAULT_LIMIT);

fn sampler() -> MutexGuard<'static, Sampler> {
    SAMPLER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets how many lines of one kind are logged in a second. 0 means all.
pub fn set_limit(lines_per_second: u32) {
    LIMIT.store(lines_per_second, Ordering::Relaxed);
}

/// Whether a line of this kind is logged now. One that is not is counted, and [`report`] says so.
#[must_use]
pub fn admits(kind: &'static str) -> bool {
    let limit = LIMIT.load(Ordering::Relaxed);
    limit == 0 || sampler().admits(kind, limit, Instant::now())
}

/// Logs how many lines of each kind were left out since the last report, if any were. Called once a second.
pub fn report() {
    let left_out = sampler().report();
    for (kind, left_out) in left_out {
        tracing::warn!(target: "openskill::log", kind, left_out, "too many log lines of one kind");
    }
}
