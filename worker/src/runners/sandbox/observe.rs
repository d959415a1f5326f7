//! Reports the metrics and health of sessions.

use std::time::Instant;

use openskill_sandbox::sessions::key::SessionOwner;
use openskill_telemetry::metrics::{Snapshot, Value, table};
use serde_json::json;

use super::Sandbox;
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

    /// Formats the health of the sandbox, as one caller sees it.
    pub(super) fn health(&self, owner: &SessionOwner, now: Instant) -> String {
        let (all, bounds) = (self.servers.lock(), self.book.bounds());
        let servers = all.values().find(|it| it.manifest.group() == owner.group);
        let version = servers.map(|it| it.interpreter.version);
        json!({
            "status": if self.book.count() >= bounds.per_worker { "full" } else { "healthy" },
            "active_sessions": self.book.list(owner, now).len(),
            "max_sessions": bounds.per_caller,
            "session_idle_seconds": bounds.idle.as_secs(),
            "session_age_seconds": bounds.age.as_secs(),
            "warm": servers.is_some_and(|it| it.is_ready()),
            "not_preloaded": servers.map(|it| it.cold_imports()).unwrap_or_default(),
            "python_version": version.map(|(major, minor)| format!("{major}.{minor}")),
        })
        .to_string()
    }
}
