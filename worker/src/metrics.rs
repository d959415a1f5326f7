//! The metrics of a worker's calls. [`openskill_telemetry::metrics::table`] defines their names. Runners report their own
//! metrics through [`Runner::measure`](crate::runner::Runner::measure).

use std::sync::Arc;
use std::time::Duration;

use openskill_proto::error::TABLE;
use openskill_proto::trace::TraceContext;
use openskill_proto::v1::ExecuteResult;
use openskill_telemetry::metrics::telemetry::TELEMETRY;
use openskill_telemetry::metrics::{
    Counter, Histogram, LabelledCounters, SkillMetrics, SkillSeries, Snapshot, process, table,
};

/// The reasons for refusing calls.
const REASONS: [&str; 6] = ["full", "late", "draining", "unknown_skill", "unavailable", "invalid"];

/// The isolation levels of skill processes.
const JAILS: [&str; 4] = ["strict", "standard", "partial", "off"];

/// A worker's counters since its start.
#[derive(Debug)]
pub(crate) struct Metrics {
    skills: Arc<SkillMetrics>,
    /// By error code. The first entry counts successes.
    calls: [Counter; TABLE.len() + 1],
    queued: Histogram,
    jailed: LabelledCounters,
    refusals: LabelledCounters,
    strays: Counter,
}

impl Metrics {
    pub(crate) fn new(skills: Arc<SkillMetrics>) -> Self {
        Self {
            skills,
            calls: [const { Counter::new() }; TABLE.len() + 1],
            queued: Histogram::default(),
            jailed: LabelledCounters::new(JAILS),
            refusals: LabelledCounters::new(REASONS),
            strays: Counter::new(),
        }
    }

    /// Counts a refused call, with one of [`REASONS`].
    pub(crate) fn count_refusal(&self, reason: &'static str) {
        self.refusals.inc(reason);
    }

    /// Counts processes that had escaped their supervisor.
    pub(crate) fn strays(&self, killed: usize) {
        self.strays.add(killed as u64);
    }

    /// Counts an answered call, and the time since its arrival.
    pub(crate) fn record_answer(&self, skill: &SkillSeries, result: &ExecuteResult, took: Duration, traceparent: &str) {
        let error = result.error.as_ref().map(|error| (error.code().meaning().code, error.blame()));
        self.calls[error.map_or(0, |(code, _)| code as usize)].inc();
        self.jailed.inc(&result.jail);
        skill.calls.inc();
        if let Some((code, blame)) = error {
            skill.errors.add(code.as_str_name(), blame.json_name());
        }
        let queued = Duration::from_micros(result.queued_us);
        let trace_id = TraceContext::parse(traceparent).map(|context| context.trace_id);
        observe(&self.queued, queued, trace_id);
        if !result.not_started {
            observe(&skill.durations, took.saturating_sub(queued), trace_id);
        }
    }

    /// Returns the values of all counters, and of what the whole process measures.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut all = Snapshot::default();
        let codes = std::iter::once("OK").chain(TABLE.iter().map(|row| row.code.as_str_name()));
        codes.zip(&self.calls).for_each(|(code, calls)| all.count(&table::WORKER_CALLS, &[code], calls));
        self.refusals.read(&mut all, &table::WORKER_REFUSALS);
        all.durations(&table::WORKER_QUEUE, &[], &self.queued);
        let of_skills = [&table::WORKER_SKILL_CALLS, &table::WORKER_SKILL_DURATION, &table::WORKER_SKILL_ERRORS];
        all.skills(&self.skills, of_skills);
        self.jailed.read(&mut all, &table::WORKER_JAILED);
        all.count(&table::STRAYS, &[], &self.strays);
        TELEMETRY.add_export_counters(&mut all);
        process::build(&mut all, env!("CARGO_PKG_VERSION"), "worker");
        process::measure(&mut all);
        all
    }
}

fn observe(histogram: &Histogram, time: Duration, trace_id: Option<[u8; 16]>) {
    match trace_id {
        Some(trace_id) => histogram.observe_traced(time, &trace_id),
        None => histogram.observe(time),
    }
}
