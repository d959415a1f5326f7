//! The metrics of a gateway. [`openskill_telemetry::metrics::table`] defines their names. Counting a call needs no lookup: its
//! skill and [`Metrics`] have the atomics.

use std::sync::Arc;
use std::time::Duration;

use openskill_net::tls::expiry::Time;
use openskill_proto::error::TABLE;
use openskill_proto::v1::{Blame, CircuitState, ExecuteResult};
use openskill_store::observed::Access;
use openskill_telemetry::metrics::skills::MOST_SKILLS;
use openskill_telemetry::metrics::snapshot::Value;
use openskill_telemetry::metrics::telemetry::TELEMETRY;
use openskill_telemetry::metrics::{
    Counter, Histogram, LabelledCounters, OTHER, SkillMetrics, SkillSeries, Snapshot, process, table,
};

use crate::arguments::Kind;
use crate::call::request::Call;

use mcp::McpRequests;

/// The names of the limits that can refuse a call.
const BOUNDS: [&str; 9] = [
    "gateway",
    "principal",
    "session",
    "skill",
    "worker",
    "principal_rate",
    "principal_in_flight",
    "principal_bytes",
    "principal_sessions",
];

/// How a skill's process was isolated, as workers report it.
const JAILS: [&str; 4] = ["strict", "standard", "partial", "off"];

/// How attempts end.
const ENDS: [&str; 5] = ["answered", "not_started", "lost", "overdue", "dropped"];

/// The circuit states, by name.
const STATES: [&str; 3] = ["closed", "half_open", "open"];

/// All parties that an error can blame.
const BLAMES: [Blame; 4] = [Blame::Caller, Blame::Skill, Blame::Worker, Blame::Gateway];

/// The counters of a gateway since its start.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) skills: Arc<SkillMetrics>,
    /// By error code. The first one counts successes.
    calls: [Counter; TABLE.len() + 1],
    /// By error code and blame.
    errors: [[Counter; BLAMES.len()]; TABLE.len()],
    queued: Histogram,
    /// By how an attempt ended: `dropped` is one that was dropped together with its call.
    pub(crate) attempts: LabelledCounters,
    jailed: LabelledCounters,
    /// By the limit that refused a call. `worker`: the workers' queues were full, or too long for its deadline.
    pub(crate) refusals: LabelledCounters,
    pub(super) repairs: LabelledCounters,
    circuits_of_sessions: LabelledCounters,
    circuits_of_skills: LabelledCounters,
    pub(super) mcp: McpRequests,
    /// Invalid arguments.
    pub(super) rejections: Counter,
    pub(super) ejections: Counter,
    /// Calls that went to another worker, because the previous one did not start them.
    pub(crate) reroutes: Counter,
    /// Skills that ran again, although an earlier attempt may have run them.
    pub(crate) reruns: Counter,
    /// Calls that got the result of an earlier call with the same key.
    pub(crate) replays: Counter,
    /// Operations that ended here, by their state.
    pub(crate) operations: LabelledCounters,
    /// Operations that ran here while another gateway took them.
    pub(crate) leases_lost: Counter,
    /// Transactions of the store that read, and that write.
    store_reads: Histogram,
    store_writes: Histogram,
    /// By what failed.
    store_failures: LabelledCounters,
    /// Attempts to tell a server of the end of an operation, by what followed.
    pub(crate) webhooks: LabelledCounters,
}

/// The operations of a gateway's store.
#[derive(Debug, Clone)]
pub(crate) struct OperationGauges {
    pub(crate) waiting: usize,
    /// Those that run at this gateway.
    pub(crate) running: usize,
    /// How long the oldest that waits has waited.
    pub(crate) oldest: Duration,
}

/// The gateway's state at the time of a scrape.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauges {
    pub(crate) in_flight: usize,
    /// The total concurrency limit of all workers, if adaptive.
    pub(crate) limit: Option<usize>,
    pub(crate) workers_known: usize,
    pub(crate) workers_up: usize,
    pub(crate) workers_ejected: usize,
    pub(crate) skills: usize,
    /// The number of skills that some worker can run.
    pub(crate) callable: usize,
    /// The skills whose circuit is open or half-open.
    pub(crate) circuits: Vec<(String, CircuitState)>,
    /// The numbers of half-open and of open session circuits.
    pub(crate) session_circuits: [usize; 2],
    /// The number of times that a changed file of views could not be used.
    pub(crate) view_failures: u64,
    /// None without a store.
    pub(crate) operations: Option<OperationGauges>,
    /// The expiry of each certificate of this process.
    pub(crate) certificates: Vec<CertificateGauge>,
}

/// The expiry of one certificate.
#[derive(Debug, Clone)]
pub(crate) struct CertificateGauge {
    pub(crate) name: &'static str,
    /// When it expires, if known.
    pub(crate) ends: Option<Time>,
    /// Whether its files changed, but the new content is invalid.
    pub(crate) is_stale: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(MOST_SKILLS)
    }
}

impl Metrics {
    /// Gives at most `skills` skills their own series.
    pub(crate) fn new(skills: usize) -> Self {
        Self {
            skills: Arc::new(SkillMetrics::new(skills)),
            calls: [const { Counter::new() }; TABLE.len() + 1],
            errors: [const { [const { Counter::new() }; BLAMES.len()] }; TABLE.len()],
            queued: Histogram::default(),
            attempts: LabelledCounters::new(ENDS),
            jailed: LabelledCounters::new(JAILS),
            refusals: LabelledCounters::new(BOUNDS),
            repairs: LabelledCounters::new(Kind::ALL.iter().map(|kind| kind.name())),
            circuits_of_sessions: LabelledCounters::new(STATES),
            circuits_of_skills: LabelledCounters::new(STATES),
            mcp: McpRequests::default(),
            rejections: Counter::new(),
            ejections: Counter::new(),
            reroutes: Counter::new(),
            reruns: Counter::new(),
            replays: Counter::new(),
            operations: LabelledCounters::new(["succeeded", "failed", "cancelled"]),
            leases_lost: Counter::new(),
            store_reads: Histogram::default(),
            store_writes: Histogram::default(),
            store_failures: LabelledCounters::new(["read", "write"]),
            webhooks: LabelledCounters::new(["delivered", "retried", "failed"]),
        }
    }

    /// Counts a call that ended. `skill` is the series of its skill, or None if the skill does not exist.
    pub(super) fn count_call(&self, call: &Call, skill: Option<&SkillSeries>, result: &ExecuteResult) {
        let error = result.error.as_ref().map(|error| (error.code().meaning().code, error.blame()));
        self.calls[error.map_or(0, |(code, _)| code as usize)].inc();
        self.jailed.inc(&result.jail);
        if let Some((code, blame)) = error {
            self.errors[code as usize - 1][place(blame)].inc();
        }
        let Some(skill) = skill else { return };
        skill.calls.inc();
        if let Some((code, blame)) = error {
            skill.errors.add(code.as_str_name(), blame.json_name());
        }
        // Only if a worker responded: the duration of other calls does not measure the skill.
        if !result.runner.is_empty() {
            skill.durations.observe_traced(call.received.elapsed(), &call.trace.context.trace_id);
            self.queued.observe(Duration::from_micros(result.queued_us));
        }
    }

    pub(super) fn transaction_ended(&self, access: Access, duration: Duration, failed: bool) {
        let (name, durations) = match access {
            Access::Read => ("read", &self.store_reads),
            Access::Write => ("write", &self.store_writes),
        };
        durations.observe(duration);
        if failed {
            self.store_failures.inc(name);
        }
    }

    pub(super) fn circuit_changed(&self, of_session: bool, state: CircuitState) {
        if of_session { &self.circuits_of_sessions } else { &self.circuits_of_skills }.inc(state_name(state));
    }

    /// Returns the current values of all series.
    pub(crate) fn snapshot(&self, now: &Gauges) -> Snapshot {
        let mut all = Snapshot::default();
        self.calls(&mut all);
        all.number(&table::CALLS_IN_FLIGHT, &[], now.in_flight as f64);
        all.number(&table::CALLS_LIMIT, &[], now.limit.map_or(f64::INFINITY, |limit| limit as f64));
        all.durations(&table::CALL_QUEUE, &[], &self.queued);
        let of_skills = [&table::SKILL_CALLS, &table::SKILL_DURATION, &table::SKILL_ERRORS];
        let series = all.skills(&self.skills, of_skills);
        circuits(&mut all, &series, now);
        self.circuits_of_sessions.read_after(&mut all, &table::CIRCUIT_CHANGES, &["session"]);
        self.circuits_of_skills.read_after(&mut all, &table::CIRCUIT_CHANGES, &["skill"]);
        self.repairs.read(&mut all, &table::REPAIRS);
        all.count(&table::REJECTIONS, &[], &self.rejections);
        self.refusals.read(&mut all, &table::REFUSALS);
        self.attempts.read(&mut all, &table::ATTEMPTS);
        all.count(&table::REROUTES, &[], &self.reroutes);
        all.count(&table::RERUNS, &[], &self.reruns);
        all.count(&table::REPLAYS, &[], &self.replays);
        self.jailed.read(&mut all, &table::JAILED);
        if let Some(OperationGauges { waiting, running, oldest }) = &now.operations {
            self.operations.read(&mut all, &table::OPERATIONS);
            all.number(&table::OPERATIONS_WAITING, &[], *waiting as f64);
            all.number(&table::OPERATIONS_RUNNING, &[], *running as f64);
            all.number(&table::OPERATIONS_OLDEST, &[], oldest.as_secs_f64());
            all.count(&table::LEASES_LOST, &[], &self.leases_lost);
            all.durations(&table::STORE_DURATION, &["read"], &self.store_reads);
            all.durations(&table::STORE_DURATION, &["write"], &self.store_writes);
            self.store_failures.read(&mut all, &table::STORE_FAILURES);
            self.webhooks.read(&mut all, &table::WEBHOOKS);
        }
        self.mcp.read(&mut all);
        all.add(&table::MCP_VIEW_FAILURES, &[], Value::Count(now.view_failures));
        for CertificateGauge { name, ends, is_stale } in &now.certificates {
            if let Some(ends) = ends {
                all.number(&table::CERTIFICATE_EXPIRY, &[name], ends.0 as f64);
            }
            all.number(&table::CERTIFICATE_STALE, &[name], f64::from(*is_stale));
        }
        all.number(&table::WORKERS_UP, &[], now.workers_up as f64);
        all.number(&table::WORKERS_KNOWN, &[], now.workers_known as f64);
        all.number(&table::WORKERS_EJECTED, &[], now.workers_ejected as f64);
        all.count(&table::EJECTIONS, &[], &self.ejections);
        all.number(&table::SKILLS, &["available"], now.callable as f64);
        all.number(&table::SKILLS, &["unavailable"], (now.skills - now.callable) as f64);
        TELEMETRY.add_recording_counters(&mut all);
        TELEMETRY.add_export_counters(&mut all);
        process::build(&mut all, env!("CARGO_PKG_VERSION"), "gateway");
        process::measure(&mut all);
        all
    }

    fn calls(&self, all: &mut Snapshot) {
        let codes = std::iter::once("OK").chain(TABLE.iter().map(|row| row.code.as_str_name()));
        codes.zip(&self.calls).for_each(|(code, calls)| all.count(&table::CALLS, &[code], calls));
        for (row, errors) in TABLE.iter().zip(&self.errors) {
            // Most codes have one blame: a series for each pair would be mostly zeros.
            let wanted = |(blame, errors): &(&Blame, &Counter)| **blame == row.blame || errors.get() > 0;
            for (blame, errors) in BLAMES.iter().zip(errors).filter(wanted) {
                all.count(&table::CALL_ERRORS, &[row.code.as_str_name(), blame.json_name()], errors);
            }
        }
    }
}

/// Adds the circuits of skills with their own `series`, and counts all circuits that are open or half-open.
fn circuits(all: &mut Snapshot, series: &[String], now: &Gauges) {
    // The series that skills share comes last, out of order.
    let (own, shared) = series.split_at(series.iter().position(|it| it == OTHER).unwrap_or(series.len()));
    let mut others = level(CircuitState::Closed);
    let mut states = std::collections::HashMap::new();
    for (skill, state) in &now.circuits {
        match own.binary_search(skill) {
            Ok(at) => drop(states.insert(at, *state)),
            Err(_) => others = others.max(level(*state)),
        }
    }
    for (at, skill) in own.iter().enumerate() {
        let state = states.get(&at).copied().unwrap_or(CircuitState::Closed);
        all.add(&table::SKILL_CIRCUIT, &[skill], Value::Number(level(state)));
    }
    if !shared.is_empty() {
        all.number(&table::SKILL_CIRCUIT, &[OTHER], others);
    }
    for (at, state) in [CircuitState::HalfOpen, CircuitState::Open].into_iter().enumerate() {
        let of_skills = now.circuits.iter().filter(|(_, it)| *it == state).count();
        all.number(&table::CIRCUITS, &["skill", state_name(state)], of_skills as f64);
        all.number(&table::CIRCUITS, &["session", state_name(state)], now.session_circuits[at] as f64);
    }
}

/// Encodes a circuit state as a number.
fn level(state: CircuitState) -> f64 {
    match state {
        CircuitState::Open => 2.0,
        CircuitState::HalfOpen => 1.0,
        CircuitState::Closed | CircuitState::Unspecified => 0.0,
    }
}

fn state_name(state: CircuitState) -> &'static str {
    STATES[level(state) as usize]
}

/// Returns the index of a blame in [`BLAMES`]. An unspecified one counts as the gateway's.
fn place(blame: Blame) -> usize {
    BLAMES.iter().position(|it| *it == blame).unwrap_or(BLAMES.len() - 1)
}

mod mcp;
#[cfg(test)]
mod tests;
