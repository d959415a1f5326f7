//! How a worker behaved recently: ejection, health, concurrency limit. The shards share it.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::ejection::{Ejection, Verdict};
use super::limit::Limit;

/// The record of one worker.
#[derive(Debug)]
pub(crate) struct Record {
    state: Mutex<RecordState>,
    /// A copy of the limit that is read without the lock.
    limit: AtomicU32,
    /// Whether the worker missed its last health check.
    unhealthy: AtomicBool,
}

#[derive(Debug)]
struct RecordState {
    ejection: Ejection,
    limit: Limit,
}

impl Default for Record {
    fn default() -> Self {
        let limit = Limit::new(1, Instant::now());
        Self {
            limit: AtomicU32::new(limit.current),
            state: Mutex::new(RecordState { ejection: Ejection::default(), limit }),
            unhealthy: AtomicBool::new(false),
        }
    }
}

/// How one call at the worker ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallReport {
    /// The epoch in which it began.
    pub(crate) epoch: u64,
    pub(crate) verdict: Verdict,
    /// How long the call queued at the worker for a slot, if the worker reports it.
    pub(crate) queued: Option<Duration>,
    /// Whether the worker refused the call because of overload.
    pub(crate) was_full: bool,
    /// The number of calls in flight at the worker when it began, including itself.
    pub(crate) in_flight: u32,
}

impl Record {
    /// Resets the record for a new process of the worker.
    pub(crate) fn reset(&self, capacity: u32, now: Instant) {
        let mut state = self.state.lock();
        let limit = Limit::new(capacity, now);
        self.limit.store(limit.current, Ordering::Relaxed);
        *state = RecordState { ejection: state.ejection.reset(), limit };
        self.unhealthy.store(false, Ordering::Relaxed);
    }

    /// The concurrency limit.
    pub(crate) fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether the worker failed too often, or does not respond to health checks. Ignores its load: the worker decides
    /// which calls to refuse, because it knows the calls of all callers and gateways.
    pub(crate) fn is_ejected(&self, now: Instant) -> bool {
        self.unhealthy.load(Ordering::Relaxed) || !self.state.lock().ejection.admits(now)
    }

    /// Whether the worker accepts a call. If the call is the probe of an ejected worker, no other call is accepted.
    pub(crate) fn claim(&self, now: Instant) -> bool {
        self.state.lock().ejection.claim(now)
    }

    /// Counts a call that is sent to the worker. Returns its epoch.
    pub(crate) fn begin(&self, now: Instant) -> u64 {
        self.state.lock().ejection.begin(now)
    }

    /// The number of slots that the worker has.
    pub(crate) fn capacity(&self) -> u32 {
        self.state.lock().limit.capacity
    }

    /// Reports how a call ended. Returns whether this ejects the worker.
    pub(crate) fn end(&self, ended: CallReport, now: Instant, may_eject: impl FnOnce() -> bool) -> bool {
        // Before the lock: counting the ejected workers locks the state of every worker, including this one.
        let is_due = ended.verdict == Verdict::Failure && self.state.lock().ejection.is_due(ended.epoch);
        let may_eject = is_due && may_eject();
        let mut state = self.state.lock();
        if let Some(queued) = ended.queued {
            state.limit.observe(queued, ended.in_flight, now);
        }
        if ended.was_full {
            state.limit.observe_refusal(ended.in_flight, now);
        }
        self.limit.store(state.limit.current, Ordering::Relaxed);
        state.ejection.end(ended.epoch, ended.verdict, now, may_eject)
    }

    /// Records whether the worker answered a health check. Returns whether that changed.
    pub(crate) fn set_healthy(&self, healthy: bool) -> bool {
        self.unhealthy.swap(!healthy, Ordering::Relaxed) == healthy
    }

    /// Returns why the worker is ejected. None if it is not.
    pub(crate) fn ejection_reason(&self, now: Instant) -> Option<String> {
        if self.unhealthy.load(Ordering::Relaxed) {
            return Some("it does not answer health checks".to_owned());
        }
        let state = self.state.lock();
        let remaining = state.ejection.remaining(now)?;
        Some(match state.ejection.is_probed() {
            true => "too many consecutive failures; a probe is in flight".to_owned(),
            false => format!("too many consecutive failures; the next probe is in {} ms", remaining.as_millis()),
        })
    }
}
