//! Requests of clients that speak MCP, by revision and method. A client can make up neither.

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

/// What is counted.
#[derive(Debug)]
pub(in crate::observe) struct McpRequests([Labelled; REVISIONS.len()]);

impl Default for McpRequests {
    fn default() -> Self {
        Self(REVISIONS.map(|_| Labelled::new(METHODS)))
    }
}

impl McpRequests {
    pub(in crate::observe) fn inc(&self, revision: &str, method: &str) {
        if let Some((_, counters)) = REVISIONS.iter().zip(&self.0).find(|(it, _)| **it == revision) {
            counters.inc(if METHODS.contains(&method) { method } else { OTHER });
        }
    }

    pub(super) fn read(&self, all: &mut Snapshot) {
        for (revision, counters) in REVISIONS.iter().zip(&self.0) {
            counters.read_with(all, &table::MCP_REQUESTS, revision);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_makes_up_is_counted_as_other() {
        let requests = McpRequests::default();
        requests.inc("2026-07-28", "tools/call");
        requests.inc("2026-07-28", "made/up");
        requests.inc("made up", "tools/call");
        let mut all = Snapshot::default();
        requests.read(&mut all);
        let text = openskill_metrics::text::Format::Prometheus.encode(&all);
        let counted: Vec<_> = text.lines().filter(|it| it.ends_with(" 1")).collect();
        assert_eq!(counted.len(), 2, "{text}");
    }
}
