//! Remembers briefly that the workers refused a call because it would miss its deadline. Meanwhile, the gateway
//! itself refuses calls of the same caller that would also be late. A caller that retries a thousand times a second
//! then costs the gateway little, and the workers nothing.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::call::request::Call;
use crate::state::key;
use crate::state::recent::Recent;
use crate::state::striped::{STRIPES, Striped};

/// How long a refusal applies to later calls. Longer than one second, a common backoff, so that a thousand
/// simultaneous retries don't all reach the workers. Short, because a cancelled call of another caller may free a
/// slot.
const MEMORY: Duration = Duration::from_millis(1250);

/// The upper bound for a worker's estimate.
const LATEST: Duration = Duration::from_secs(3600);

/// The minimum number of callers that are remembered.
const CALLERS: usize = 16 * 1024;

/// The callers that workers recently refused.
#[derive(Debug)]
pub(crate) struct Lateness {
    callers: Striped<Recent<RecentRefusal>>,
    started: Instant,
    /// When the newest refusal expires, in microseconds since the start. Avoids a lookup while no refusal applies.
    newest_us: AtomicU64,
}

/// A recent refusal, which predicts the next calls of the same caller.
#[derive(Debug, Clone, Copy)]
struct RecentRefusal {
    /// When the refused call would have ended, as the worker estimated.
    ends: Instant,
    expires: Instant,
}

impl RecentRefusal {
    fn new(deadline: Instant, late_by: Duration, now: Instant) -> Self {
        Self { ends: deadline + late_by.min(LATEST), expires: now + MEMORY }
    }

    /// Returns by how much a call with this deadline would be late. None if it would be in time.
    fn late_by(self, deadline: Instant, now: Instant) -> Option<Duration> {
        let late_by = self.ends.saturating_duration_since(deadline);
        (now < self.expires && !late_by.is_zero()).then_some(late_by)
    }
}

impl Default for Lateness {
    fn default() -> Self {
        let callers = Striped::new(|| Recent::new(CALLERS / STRIPES));
        Self { callers, started: Instant::now(), newest_us: AtomicU64::new(0) }
    }
}

impl Lateness {
    /// Records that the workers refused a call of this caller, because it would have missed its deadline by
    /// `late_by`.
    pub(crate) fn record_refusal(&self, call: &Call, deadline: Instant, late_by: Duration, now: Instant) {
        let refused = RecentRefusal::new(deadline, late_by, now);
        let key = caller(call);
        self.callers.lock(&key).insert(key, refused);
        self.newest_us.fetch_max(self.micros(refused.expires), Ordering::Relaxed);
    }

    /// Returns by how much a call with this deadline would be late, if its caller was recently refused.
    pub(crate) fn late_by(&self, call: &Call, deadline: Instant, now: Instant) -> Option<Duration> {
        if self.micros(now) >= self.newest_us.load(Ordering::Relaxed) {
            return None;
        }
        let key = caller(call);
        let refused = self.callers.lock(&key).peek(&key).copied();
        refused.and_then(|it| it.late_by(deadline, now))
    }

    /// Watches a call that is sent to the workers. If it is cancelled, the next call of the same caller may be in
    /// time.
    pub(crate) fn watch<'l>(&'l self, call: &'l Call) -> RefusalWatch<'l> {
        RefusalWatch { lateness: self, call, has_ended: false }
    }

    fn forget(&self, call: &Call) {
        if self.micros(Instant::now()) < self.newest_us.load(Ordering::Relaxed) {
            let key = caller(call);
            self.callers.lock(&key).remove(&key);
        }
    }

    fn micros(&self, time: Instant) -> u64 {
        u64::try_from(time.saturating_duration_since(self.started).as_micros()).unwrap_or(u64::MAX)
    }
}

/// Watches a call at the workers. If it is dropped before [`RefusalWatch::disarm`], the call was cancelled, and its
/// caller's refusal is forgotten.
pub(crate) struct RefusalWatch<'l> {
    lateness: &'l Lateness,
    call: &'l Call,
    has_ended: bool,
}

impl RefusalWatch<'_> {
    /// Keeps the refusal, because the call was not cancelled.
    pub(crate) fn disarm(mut self) {
        self.has_ended = true;
    }
}

impl Drop for RefusalWatch<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.lateness.forget(self.call);
        }
    }
}

/// Returns the key of a caller. Workers divide their slots by principal and session, and estimate durations per
/// skill.
fn caller(call: &Call) -> String {
    key::join([call.principal.name(), &call.session_id, &call.skill_id])
}

#[cfg(test)]
mod tests {
    use super::*;

    use openskill_proto::v1::InvokeRequest;

    use crate::call::request::RequestContext;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_caller_that_cancels_a_call_may_call_again() {
        let (lateness, now) = (Lateness::default(), Instant::now());
        let call = Call::new(InvokeRequest::default(), RequestContext::unknown());
        let refuse = || lateness.record_refusal(&call, now + 10 * SECOND, SECOND, now);
        let is_late = || lateness.late_by(&call, now + 10 * SECOND, now).is_some();
        refuse();
        lateness.watch(&call).disarm();
        assert!(is_late());
        drop(lateness.watch(&call));
        assert!(!is_late());
    }

    #[test]
    fn a_later_call_is_late_by_what_its_deadline_lacks() {
        let now = Instant::now();
        let refused = RecentRefusal::new(now + 10 * SECOND, 3 * SECOND, now);
        assert_eq!(refused.late_by(now + 10 * SECOND, now), Some(3 * SECOND));
        assert_eq!(refused.late_by(now + 12 * SECOND, now), Some(SECOND));
        assert_eq!(refused.late_by(now + 13 * SECOND, now), None, "it has the time");
    }

    #[test]
    fn a_refusal_is_forgotten_after_a_moment() {
        let now = Instant::now();
        let refused = RecentRefusal::new(now + SECOND, SECOND, now);
        assert!(refused.late_by(now + SECOND, now + MEMORY - Duration::from_micros(1)).is_some());
        assert_eq!(refused.late_by(now + SECOND, now + MEMORY), None);
    }
}
