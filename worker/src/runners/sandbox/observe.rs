//! Reports the metrics and health of sessions.

use std::time::Instant;

use openskill_metrics::{Snapshot, Value, table};
use openskill_sandbox::sessions::key::SessionOwner;

use super::Sandbox;
use super::answer::{self, HealthReport};
use crate::sessions::tally::SessionCounts;

impl Sandbox {
    /// Adds the metrics of all sessions.
    pub(super) fn measure_sessions(&self, metrics: &mut Snapshot) {
        let (all, busy) = (self.book.count(), self.book.busy());
        metrics.number(&table::SESSIONS, &["busy"], busy as f64);
        metrics.number(&table::SESSIONS, &["idle"], all.saturating_sub(busy) as f64);
        let SessionCounts { cells, failed, timed_out, started, lost, .. } = self.tally.total();
        metrics.add(&table::SESSION_STARTS, &[], Value::Count(started));
        metrics.add(&table::SESSION_LOSSES, &[], Value::Count(lost));
        let ok = cells.saturating_sub(failed);
        let outcomes = [("ok", ok), ("failed", failed.saturating_sub(timed_out)), ("timed_out", timed_out)];
        for (outcome, count) in outcomes {
            metrics.add(&table::SESSION_CALLS, &[outcome], Value::Count(count));
        }
    }

    /// Returns the health of an owner's sessions.
    pub(super) fn health(&self, owner: &SessionOwner, now: Instant) -> String {
        let all = self.lock();
        let servers = all.values().find(|it| it.group() == owner.group);
        answer::health(&HealthReport {
            own: self.book.list(owner, now).len(),
            is_full: self.book.count() >= self.book.bounds().per_worker,
            is_warm: servers.is_some_and(|it| it.is_ready()),
            not_preloaded: servers.map(|it| it.cold_imports()).unwrap_or_default(),
            python: servers.map(|it| it.version()),
            bounds: self.book.bounds(),
        })
    }
}
