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

/// The maximum number of views with their own counters: `/mcp`, and the maximum in a file.
const MAX_VIEWS: usize = 257;

/// Counts MCP requests, separately for each view.
///
/// The names of views come from the operator's file, not from clients. The empty one is `/mcp`.
#[derive(Debug)]
pub(in crate::observe) struct McpRequests(RwLock<BTreeMap<String, OfView>>);

impl Default for McpRequests {
    fn default() -> Self {
        Self(RwLock::new(BTreeMap::from([Default::default()])))
    }
}

#[derive(Debug)]
struct OfView([LabelledCounters; REVISIONS.len()]);

impl Default for OfView {
    fn default() -> Self {
        Self(REVISIONS.map(|_| LabelledCounters::new(METHODS.lines().chain([OTHER]))))
    }
}

impl OfView {
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
        if let Some(counters) = self.0.read().get(view) {
            return counters.inc(revision, method);
        }
        let mut views = self.0.write();
        let view = if views.len() < MAX_VIEWS { view } else { OTHER };
        views.entry(view.to_owned()).or_default().inc(revision, method);
    }

    pub(super) fn read(&self, all: &mut Snapshot) {
        self.0.read().iter().for_each(|(name, counters)| counters.read(all, name));
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
