//! Counts MCP requests by revision and method. Both are fixed sets, so clients can't create series.

use std::collections::BTreeMap;

use openskill_telemetry::metrics::{LabelledCounters, Snapshot, table};
use parking_lot::RwLock;

/// The revisions as clients name them.
const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The methods with separate counters, one a line.
const METHODS: &str = include_str!("mcp_methods.txt");

/// Counts all other methods.
const OTHER: &str = "other";

/// The maximum number of views with their own counters, equal to the maximum in a file.
const MAX_VIEWS: usize = 256;

/// Counts MCP requests, separately for each view.
#[derive(Debug, Default)]
pub(in crate::observe) struct McpRequests {
    /// Counts requests at `/mcp`, without a lock.
    whole: ViewCounters,
    /// Counts requests by view. The names come from the operator's file, not from clients.
    views: RwLock<BTreeMap<String, ViewCounters>>,
}

#[derive(Debug)]
struct ViewCounters([LabelledCounters; REVISIONS.len()]);

impl Default for ViewCounters {
    fn default() -> Self {
        Self(REVISIONS.map(|_| LabelledCounters::new(METHODS.lines().chain([OTHER]))))
    }
}

impl ViewCounters {
    fn inc(&self, revision: &str, method: &str) {
        if let Some((_, counters)) = REVISIONS.iter().zip(&self.0).find(|(it, _)| **it == revision) {
            counters.inc(if METHODS.lines().any(|it| it == method) { method } else { OTHER });
        }
    }

    fn read(&self, all: &mut Snapshot, view: &str) {
        for (revision, counters) in REVISIONS.iter().zip(&self.0) {
            counters.read_after(all, &table::MCP_REQUESTS, &[view, revision]);
        }
    }
}

impl McpRequests {
    /// Counts a request. `view` is empty for `/mcp`.
    pub(in crate::observe) fn inc(&self, view: &str, revision: &str, method: &str) {
        if view.is_empty() {
            return self.whole.inc(revision, method);
        }
        if let Some(counters) = self.views.read().get(view) {
            return counters.inc(revision, method);
        }
        let mut views = self.views.write();
        let view = if views.len() < MAX_VIEWS { view } else { OTHER };
        views.entry(view.to_owned()).or_default().inc(revision, method);
    }

    pub(super) fn read(&self, all: &mut Snapshot) {
        self.whole.read(all, "");
        self.views.read().iter().for_each(|(name, counters)| counters.read(all, name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_makes_up_is_counted_as_other() {
        let requests = McpRequests::default();
        requests.inc("", "2026-07-28", "tools/call");
        requests.inc("", "2026-07-28", "made/up");
        requests.inc("", "made up", "tools/call");
        let mut all = Snapshot::default();
        requests.read(&mut all);
        let text = openskill_telemetry::metrics::text::Format::Prometheus.encode(&all);
        let counted: Vec<_> = text.lines().filter(|it| it.ends_with(" 1")).collect();
        assert_eq!(counted.len(), 2, "{text}");
    }
}
