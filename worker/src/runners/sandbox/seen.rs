//! What can be seen of sessions from outside: their metrics, and whether they work.

use std::time::Instant;

use openskill_metrics::{Snapshot, Value, table};

use super::Sandbox;
use super::answer::{self, Report};
use crate::sessions::key::Owner;
use crate::sessions::tally::Counts;

impl Sandbox {
    /// Adds the metrics of all sessions.
    pub(super) fn measured(&self, metrics: &mut Snapshot) {
        let (all, busy) = (self.book.count(), self.book.busy());
        metrics.number(&table::SESSIONS, &["busy"], busy as f64);
        metrics.number(&table::SESSIONS, &["idle"], all.saturating_sub(busy) as f64);
        let Counts { cells, failed, timed_out, started, lost, .. } = self.tally.total();
        metrics.add(&table::SESSION_STARTS, &[], Value::Count(started));
        metrics.add(&table::SESSION_LOSSES, &[], Value::Count(lost));
        let ok = cells.saturating_sub(failed);
        let outcomes = [("ok", ok), ("failed", failed.saturating_sub(timed_out)), ("timed_out", timed_out)];
        for (outcome, count) in outcomes {
            metrics.add(&table::SESSION_CALLS, &[outcome], Value::Count(count));
        }
    }

    /// Whether an owner's sessions work.
    pub(super) fn health(&self, owner: &Owner, now: Instant) -> String {
        let all = self.lock();
        let servers = all.values().find(|it| it.group() == owner.group);
        answer::health(&Report {
            own: self.book.list(owner, now).len(),
            is_full: self.book.count() >= self.book.bounds().per_worker,
            is_warm: servers.is_some_and(|it| it.is_ready()),
            not_preloaded: servers.map(|it| it.cold_imports()).unwrap_or_default(),
            python: servers.map(|it| it.version()),
            bounds: self.book.bounds(),
        })
    }
}
