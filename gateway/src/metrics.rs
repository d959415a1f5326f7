//! Counters, in the text format that Prometheus reads. `GET /metrics` serves them.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use openskill_proto::error::TABLE;
use openskill_proto::v1::ErrorCode;

use crate::arguments::Kind;

/// What a gateway has counted since it began.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// By error code; the first is success.
    calls: Vec<AtomicU64>,
    /// In the order of [`Kind::ALL`].
    repairs: Vec<AtomicU64>,
    rejections: AtomicU64,
}

impl Default for Metrics {
    fn default() -> Self {
        let counters = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        Self { calls: counters(TABLE.len() + 1), repairs: counters(Kind::ALL.len()), rejections: AtomicU64::new(0) }
    }
}

impl Metrics {
    /// A call ended; none means it succeeded.
    pub(crate) fn ended(&self, code: Option<ErrorCode>) {
        let index = code.map_or(0, |code| code.meaning().code as usize);
        self.calls[index].fetch_add(1, Relaxed);
    }

    /// A call's arguments were changed.
    pub(crate) fn repaired(&self, kind: Kind) {
        self.repairs[kind as usize].fetch_add(1, Relaxed);
    }

    /// A call's arguments could not be used.
    pub(crate) fn rejected(&self) {
        self.rejections.fetch_add(1, Relaxed);
    }

    /// All counters as text.
    pub(crate) fn render(&self) -> String {
        let mut out = String::new();
        head(
            &mut out,
            "openskill_calls_total",
            "Calls that were answered, by the code of the answer; OK means success.",
        );
        let codes = std::iter::once("OK").chain(TABLE.iter().map(|row| row.code.as_str_name()));
        for (code, count) in codes.zip(&self.calls) {
            line(&mut out, &format!("openskill_calls_total{{code=\"{code}\"}}"), count);
        }
        head(&mut out, "openskill_argument_repairs_total", "Changes made to calls' arguments, by their kind.");
        for (kind, count) in Kind::ALL.iter().zip(&self.repairs) {
            line(&mut out, &format!("openskill_argument_repairs_total{{kind=\"{}\"}}", kind.name()), count);
        }
        head(&mut out, "openskill_argument_rejections_total", "Calls whose arguments could not be used.");
        line(&mut out, "openskill_argument_rejections_total", &self.rejections);
        out
    }
}

fn head(out: &mut String, name: &str, help: &str) {
    // Writing to a String can't fail.
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} counter");
}

fn line(out: &mut String, name: &str, count: &AtomicU64) {
    let _ = writeln!(out, "{name} {}", count.load(Relaxed));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_and_code_counts_on_its_own_line() {
        let metrics = Metrics::default();
        Kind::ALL.iter().for_each(|kind| metrics.repaired(*kind));
        metrics.repaired(Kind::Alias);
        metrics.ended(None);
        metrics.ended(Some(ErrorCode::McpNotFound));
        let text = metrics.render();
        assert!(text.contains("kind=\"alias\"} 2\n") && text.contains("kind=\"unknown_dropped\"} 1\n"));
        assert!(text.contains("code=\"OK\"} 1\n") && text.contains("code=\"MCP_NOT_FOUND\"} 1\n"));
    }
}
