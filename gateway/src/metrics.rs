//! Counters, in the text format that Prometheus reads. `GET /metrics` serves them.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use openskill_proto::error::TABLE;
use openskill_proto::v1::{CircuitState, ErrorCode};

use crate::admission::Full;
use crate::arguments::Kind;

/// What a gateway has counted since it began.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// By error code; the first is success.
    calls: Vec<AtomicU64>,
    /// In the order of [`Kind::ALL`].
    repairs: Vec<AtomicU64>,
    rejections: AtomicU64,
    /// By scope (session, skill) and state (open, half-open, closed).
    circuits: [[AtomicU64; 3]; 2],
    /// By whose bound it was, in the order of [`Full::NAMES`].
    refusals: [AtomicU64; 3],
    ejections: AtomicU64,
    reruns: AtomicU64,
    replays: AtomicU64,
}

/// What a gateway is like now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gauges {
    pub(crate) in_flight: usize,
    /// How many calls the workers may have, if that is limited.
    pub(crate) limit: Option<usize>,
    pub(crate) workers_up: usize,
    pub(crate) workers_out: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let counters = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect();
        let (rejections, circuits, refusals, ejections, reruns, replays) = Default::default();
        let (calls, repairs) = (counters(TABLE.len() + 1), counters(Kind::ALL.len()));
        Self { calls, repairs, rejections, circuits, refusals, ejections, reruns, replays }
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

    /// A circuit changed.
    pub(crate) fn circuit_changed(&self, of_session: bool, state: CircuitState) {
        let state = match state {
            CircuitState::Open => 0,
            CircuitState::HalfOpen => 1,
            CircuitState::Closed | CircuitState::Unspecified => 2,
        };
        self.circuits[usize::from(!of_session)][state].fetch_add(1, Relaxed);
    }

    /// There was no place for a call.
    pub(crate) fn refused(&self, why: Full) {
        self.refusals[why as usize].fetch_add(1, Relaxed);
    }

    /// A worker was left out for a while.
    pub(crate) fn ejected(&self) {
        self.ejections.fetch_add(1, Relaxed);
    }

    /// A skill that may have run runs again.
    pub(crate) fn rerun(&self) {
        self.reruns.fetch_add(1, Relaxed);
    }

    /// A call got the result of an earlier one.
    pub(crate) fn replayed(&self) {
        self.replays.fetch_add(1, Relaxed);
    }

    /// All of it as text.
    pub(crate) fn render(&self, now: &Gauges) -> String {
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
        head(
            &mut out,
            "openskill_circuit_changes_total",
            "Circuits that changed, by whose they are and the new state.",
        );
        for (scope, counts) in ["session", "skill"].iter().zip(&self.circuits) {
            for (state, count) in ["open", "half_open", "closed"].iter().zip(counts) {
                let name = format!("openskill_circuit_changes_total{{scope=\"{scope}\",state=\"{state}\"}}");
                line(&mut out, &name, count);
            }
        }
        head(&mut out, "openskill_refusals_total", "Calls for which there was no place, by whose bound it was.");
        for (bound, count) in Full::NAMES.iter().zip(&self.refusals) {
            line(&mut out, &format!("openskill_refusals_total{{bound=\"{bound}\"}}"), count);
        }
        let single = [
            ("openskill_worker_ejections_total", "Times that a worker was left out for a while.", &self.ejections),
            ("openskill_reruns_total", "Skills that ran again after an attempt that failed.", &self.reruns),
            ("openskill_replays_total", "Calls that got the result of an earlier one by their key.", &self.replays),
        ];
        for (name, help, count) in single {
            head(&mut out, name, help);
            line(&mut out, name, count);
        }
        now.render(&mut out);
        out
    }
}

impl Gauges {
    fn render(&self, out: &mut String) {
        let limit = self.limit.map_or("+Inf".to_owned(), |limit| limit.to_string());
        for (name, help, value) in [
            ("openskill_calls_in_flight", "Calls that have a place.", self.in_flight.to_string()),
            ("openskill_calls_limit", "Calls that the workers may have together.", limit),
            ("openskill_workers_up", "Workers that take calls.", self.workers_up.to_string()),
            ("openskill_workers_out", "Of these, those that are left out now.", self.workers_out.to_string()),
        ] {
            let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}");
        }
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
        metrics.circuit_changed(false, CircuitState::HalfOpen);
        let text = metrics.render(&Gauges { in_flight: 7, limit: None, workers_up: 2, workers_out: 1 });
        assert!(text.contains("{scope=\"skill\",state=\"half_open\"} 1\n") && text.contains("_calls_limit +Inf\n"));
        assert!(text.contains("kind=\"alias\"} 2\n") && text.contains("kind=\"unknown_dropped\"} 1\n"));
        assert!(text.contains("code=\"OK\"} 1\n") && text.contains("code=\"MCP_NOT_FOUND\"} 1\n"));
    }
}
