//! Counters and gauges, in the OpenMetrics text format that Prometheus scrapes.

use openskill_proto::error::TABLE;
use openskill_proto::v1::{CircuitState, ErrorCode};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::arguments::Kind;

/// The limits that a refused call can hit.
const BOUNDS: [&str; 4] = ["gateway", "session", "skill", "worker"];

/// How well a skill's process was isolated, as workers say it.
const JAILS: [&str; 4] = ["strict", "standard", "partial", "off"];

type Labels<const N: usize> = [(&'static str, &'static str); N];

/// What a gateway has counted since it started.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    /// By error code; the first is success. Looked up once: a call must not hash its labels.
    calls: Vec<Counter>,
    /// In the order of [`JAILS`].
    jailed: Vec<Counter>,
    repairs: Family<Labels<1>, Counter>,
    circuits: Family<Labels<2>, Counter>,
    refusals: Family<Labels<1>, Counter>,
    pub(super) rejections: Counter,
    pub(super) ejections: Counter,
    pub(super) reruns: Counter,
    pub(super) replays: Counter,
    in_flight: Gauge,
    limit: Gauge<f64, std::sync::atomic::AtomicU64>,
    workers_up: Gauge,
    workers_ejected: Gauge,
}

/// The gateway's state at the time of a scrape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gauges {
    pub(crate) in_flight: usize,
    /// The concurrency limit of all workers together, if there is one.
    pub(crate) limit: Option<usize>,
    pub(crate) workers_up: usize,
    pub(crate) workers_ejected: usize,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut registry = Registry::with_prefix("openskill");
        let calls = Family::<Labels<1>, Counter>::default();
        let jailed = Family::<Labels<1>, Counter>::default();
        let codes = std::iter::once("OK").chain(TABLE.iter().map(|row| row.code.as_str_name()));
        let mut metrics = Self {
            calls: codes.map(|code| calls.get_or_create(&[("code", code)]).clone()).collect(),
            jailed: JAILS.iter().map(|level| jailed.get_or_create(&[("level", *level)]).clone()).collect(),
            repairs: Family::default(),
            circuits: Family::default(),
            refusals: Family::default(),
            rejections: Counter::default(),
            ejections: Counter::default(),
            reruns: Counter::default(),
            replays: Counter::default(),
            in_flight: Gauge::default(),
            limit: Gauge::default(),
            workers_up: Gauge::default(),
            workers_ejected: Gauge::default(),
            registry: Registry::default(),
        };
        metrics.create_series();
        registry.register("calls", "Calls that were answered, by error code; OK means success", calls);
        registry.register("jailed_calls", "Calls that a skill's process answered, by the level of its jail", jailed);
        registry.register("argument_repairs", "Repairs made to arguments, by kind", metrics.repairs.clone());
        registry.register("argument_rejections", "Calls whose arguments were rejected", metrics.rejections.clone());
        let help = "Circuit state changes, by the circuit's scope and its new state";
        registry.register("circuit_changes", help, metrics.circuits.clone());
        registry.register("refusals", "Calls refused by admission, by the bound they hit", metrics.refusals.clone());
        registry.register("worker_ejections", "Outlier ejections of workers", metrics.ejections.clone());
        registry.register("reruns", "Retries of skills that may have run before", metrics.reruns.clone());
        registry.register(
            "replays",
            "Calls answered with the result of their idempotency key",
            metrics.replays.clone(),
        );
        registry.register("calls_in_flight", "Calls that hold a permit", metrics.in_flight.clone());
        registry.register("calls_limit", "The workers' concurrency limit, all together", metrics.limit.clone());
        registry.register("workers_up", "Workers that take calls", metrics.workers_up.clone());
        registry.register("workers_ejected", "Workers that are ejected now", metrics.workers_ejected.clone());
        metrics.registry = registry;
        metrics
    }
}

impl Metrics {
    /// Creates every series, so that a counter starts at zero and not with its first event.
    fn create_series(&self) {
        Kind::ALL.iter().for_each(|kind| drop(self.repairs.get_or_create(&[("kind", kind.name())])));
        BOUNDS.iter().for_each(|bound| drop(self.refusals.get_or_create(&[("bound", bound)])));
        for of_session in [true, false] {
            for state in [CircuitState::Open, CircuitState::HalfOpen, CircuitState::Closed] {
                drop(self.circuits.get_or_create(&circuit_labels(of_session, state)));
            }
        }
    }

    /// A call ended; none means that it succeeded.
    pub(super) fn ended(&self, code: Option<ErrorCode>) {
        let index = code.map_or(0, |code| code.meaning().code as usize);
        self.calls[index].inc();
    }

    /// A skill's process, isolated like this, answered a call.
    pub(super) fn jailed(&self, level: &str) {
        if let Some(index) = JAILS.iter().position(|it| *it == level) {
            self.jailed[index].inc();
        }
    }

    /// A repair of this kind was made.
    pub(super) fn repaired(&self, kind: &str) {
        if let Some(kind) = Kind::ALL.iter().find(|it| it.name() == kind) {
            self.repairs.get_or_create(&[("kind", kind.name())]).inc();
        }
    }

    pub(super) fn circuit_changed(&self, of_session: bool, state: CircuitState) {
        self.circuits.get_or_create(&circuit_labels(of_session, state)).inc();
    }

    pub(super) fn refused(&self, bound: &'static str) {
        self.refusals.get_or_create(&[("bound", bound)]).inc();
    }

    /// All series as text.
    pub(crate) fn render(&self, now: &Gauges) -> String {
        let count = |value: usize| i64::try_from(value).unwrap_or(i64::MAX);
        self.in_flight.set(count(now.in_flight));
        self.limit.set(now.limit.map_or(f64::INFINITY, |limit| limit as f64));
        self.workers_up.set(count(now.workers_up));
        self.workers_ejected.set(count(now.workers_ejected));
        let mut text = String::new();
        // Writing to a String can't fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

fn circuit_labels(of_session: bool, state: CircuitState) -> Labels<2> {
    let scope = if of_session { "session" } else { "skill" };
    let state = match state {
        CircuitState::Open => "open",
        CircuitState::HalfOpen => "half_open",
        CircuitState::Closed | CircuitState::Unspecified => "closed",
    };
    [("scope", scope), ("state", state)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_and_code_has_a_series_of_its_own() {
        let metrics = Metrics::default();
        Kind::ALL.iter().for_each(|kind| metrics.repaired(kind.name()));
        metrics.repaired(Kind::Alias.name());
        metrics.ended(None);
        metrics.jailed("strict");
        metrics.ended(Some(ErrorCode::McpNotFound));
        metrics.circuit_changed(false, CircuitState::HalfOpen);
        let text = metrics.render(&Gauges { in_flight: 7, limit: None, workers_up: 2, workers_ejected: 1 });
        for line in [
            "openskill_circuit_changes_total{scope=\"skill\",state=\"half_open\"} 1\n",
            "openskill_circuit_changes_total{scope=\"session\",state=\"open\"} 0\n",
            "openskill_calls_limit inf\n",
            "openskill_jailed_calls_total{level=\"strict\"} 1\n",
            "openskill_jailed_calls_total{level=\"off\"} 0\n",
            "openskill_calls_in_flight 7\n",
            "openskill_argument_repairs_total{kind=\"alias\"} 2\n",
            "openskill_argument_repairs_total{kind=\"unknown_dropped\"} 1\n",
            "openskill_calls_total{code=\"OK\"} 1\n",
            "openskill_calls_total{code=\"MCP_NOT_FOUND\"} 1\n",
        ] {
            assert!(text.contains(line), "{line} is missing in:\n{text}");
        }
    }
}
