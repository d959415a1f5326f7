//! Requests of clients that speak MCP, by revision and method. A client can make up neither.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use openskill_metrics::{Labelled, Snapshot, table};

/// The revisions, as clients name them.
const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/// The methods that are told apart.
const METHODS: [&str; 19] = [
    "initialize",
    "server/discover",
    "ping",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "tasks/get",
    "tasks/update",
    "tasks/cancel",
    "logging/setLevel",
    "subscriptions/listen",
    OTHER,
];

/// All other methods.
const OTHER: &str = "other";

/// How many views are told apart: as many as a file has.
const MAX_VIEWS: usize = 256;

/// What is counted.
#[derive(Debug, Default)]
pub(in crate::observe) struct McpRequests {
    /// At `/mcp` itself.
    whole: OfView,
    /// By the name of a view. An operator's file makes names up, no client does.
    views: RwLock<BTreeMap<String, OfView>>,
}

#[derive(Debug)]
struct OfView([Labelled; REVISIONS.len()]);

impl Default for OfView {
    fn default() -> Self {
        Self(REVISIONS.map(|_| Labelled::new(METHODS)))
    }
}

impl OfView {
    fn inc(&self, revision: &str, method: &str) {
        if let Some((_, counters)) = REVISIONS.iter().zip(&self.0).find(|(it, _)| **it == revision) {
            counters.inc(if METHODS.contains(&method) { method } else { OTHER });
        }
    }

    fn read(&self, all: &mut Snapshot, view: &str) {
        for (revision, counters) in REVISIONS.iter().zip(&self.0) {
            counters.read_after(all, &table::MCP_REQUESTS, &[view, revision]);
        }
    }
}

impl McpRequests {
    /// Counts a request. `view`: empty at `/mcp` itself.
    pub(in crate::observe) fn inc(&self, view: &str, revision: &str, method: &str) {
        if view.is_empty() {
            return self.whole.inc(revision, method);
        }
        if let Some(counters) = self.views.read().unwrap_or_else(PoisonError::into_inner).get(view) {
            return counters.inc(revision, method);
        }
        let mut views = self.views.write().unwrap_or_else(PoisonError::into_inner);
        let view = if views.len() < MAX_VIEWS { view } else { OTHER };
        views.entry(view.to_owned()).or_default().inc(revision, method);
    }

    pub(super) fn read(&self, all: &mut Snapshot) {
        self.whole.read(all, "");
        let views = self.views.read().unwrap_or_else(PoisonError::into_inner);
        views.iter().for_each(|(name, counters)| counters.read(all, name));
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
        let text = openskill_metrics::text::Format::Prometheus.encode(&all);
        let counted: Vec<_> = text.lines().filter(|it| it.ends_with(" 1")).collect();
        assert_eq!(counted.len(), 2, "{text}");
    }
}
