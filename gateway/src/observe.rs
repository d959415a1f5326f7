//! Log lines and metrics of calls, circuits and workers. Other rooms report events here; nothing here decides. Events that
//! peers cause at will are all counted, and logged as far as [`openskill_log::admits`] allows.
//!
//! - [`metrics`]: what is counted, served at `GET /metrics`
//! - [`call_record`]: one log line a call, whatever its end
//! - [`call_event`]: what happens to a call on its way; [`recording`]: all of it, when it has ended; [`recorder`]: who keeps it
//! - [`spans`]: the OpenTelemetry spans of a call

use openskill_identity::shares::Pool;
use openskill_metrics::SkillSeries;
use openskill_proto::v1::{Circuit, ExecuteResult};
use openskill_trace::Tracer;

use crate::call::preparation::Preparation;
use crate::call::request::Call;

pub(crate) mod call_event;
pub(crate) mod call_record;
pub(crate) mod metrics;
pub(crate) mod recorder;
pub(crate) mod recording;
mod spans;

use crate::state::limits::SharedLimit;
use metrics::Metrics;
use recorder::Recorder;

/// Hears of everything that is worth a metric or a log line.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) metrics: Metrics,
    /// Makes the spans of calls, if that is on.
    pub(crate) tracer: Option<Tracer>,
    /// Keeps whole calls, if that is on.
    pub(crate) recorder: Option<Recorder>,
    /// What is kept of what skills and users say, until their calls end.
    pub(crate) said: Pool,
}

impl Default for Observer {
    fn default() -> Self {
        Self {
            metrics: Metrics::default(),
            tracer: None,
            recorder: None,
            said: Pool::new(SharedLimit::Recordings.bound()),
        }
    }
}

impl Observer {
    /// At most `skills` skills have series of their own. Without a `tracer`, calls are not traced.
    pub(crate) fn new(skills: usize, tracer: Option<Tracer>) -> Self {
        Self { metrics: Metrics::new(skills), tracer, ..Self::default() }
    }

    /// A call's arguments fit, perhaps after repairs.
    pub(crate) fn arguments_prepared(&self, call: &Call, preparation: &Preparation) {
        if preparation.repairs.is_empty() {
            return;
        }
        preparation.repairs.iter().for_each(|repair| self.metrics.repairs.inc(&repair.kind));
        if tracing::enabled!(target: "openskill::arguments", tracing::Level::DEBUG) {
            // Kinds and places only: the values are the caller's and stay out of the log.
            let repairs: Vec<_> = preparation.repairs.iter().map(|it| format!("{} {}", it.kind, it.path)).collect();
            tracing::debug!(
                target: "openskill::arguments",
                trace_id = call.trace.id,
                skill_id = call.skill_id,
                call_id = call.call_id,
                repairs = repairs.join(", "),
                warning = preparation.warnings.last().map_or("", String::as_str),
                "arguments repaired"
            );
        }
    }

    /// A call's arguments do not fit.
    pub(crate) fn arguments_rejected(&self) {
        self.metrics.rejections.inc();
    }

    /// The workers' queues were full, or too long for the call's deadline.
    pub(crate) fn call_refused_by_workers(&self) {
        self.metrics.refusals.inc("worker");
    }

    /// A call got no permit.
    pub(crate) fn call_refused(&self, bound: &'static str) {
        self.metrics.refusals.inc(bound);
    }

    /// A call got the result of an earlier one.
    pub(crate) fn call_replayed(&self) {
        self.metrics.replays.inc();
    }

    /// A client that speaks MCP asked for a method at a view, by this revision.
    pub(crate) fn mcp_request(&self, view: &str, revision: &str, method: &str) {
        self.metrics.mcp.inc(view, revision, method);
    }

    /// A call ended. `skill` is what is counted of its skill; none if there is no such skill.
    pub(crate) fn call_ended(&self, call: &Call, skill: Option<&SkillSeries>, result: &ExecuteResult) {
        self.metrics.ended(call, skill, result);
    }

    /// An attempt ended like this: `answered`, `not_started`, `lost`, `overdue`, or `dropped` with its call.
    pub(crate) fn attempt_ended(&self, how: &'static str) {
        self.metrics.attempts.inc(how);
    }

    /// A call goes to another worker: the one before did not start it.
    pub(crate) fn attempt_rerouted(&self) {
        self.metrics.reroutes.inc();
    }

    /// A skill that may have run runs again.
    pub(crate) fn attempt_retried(&self) {
        self.metrics.reruns.inc();
    }

    /// The skill did not start at a worker. `refusal`: its name. The reason may be a remote text, and stays out of the log.
    pub(crate) fn attempt_not_started(&self, endpoint: &impl std::fmt::Display, refusal: &'static str, reason: &str) {
        if openskill_log::admits("a skill did not start") {
            let reason_bytes = reason.len();
            tracing::info!(%endpoint, refusal, reason_bytes, "the skill did not start on this worker");
            tracing::debug!(%endpoint, reason, "why the skill did not start");
        }
    }

    /// A worker was lost while it had a call.
    pub(crate) fn attempt_lost(&self, endpoint: &impl std::fmt::Display, reason: &str) {
        if openskill_log::admits("a worker was lost") {
            let reason_bytes = reason.len();
            tracing::warn!(%endpoint, reason_bytes, "a worker was lost during a call");
            tracing::debug!(%endpoint, reason, "why the worker was lost");
        }
    }

    /// A worker failed too often and gets no calls for a while.
    pub(crate) fn worker_ejected(&self, endpoint: &impl std::fmt::Display) {
        self.metrics.ejections.inc();
        if openskill_log::admits("a worker was ejected") {
            tracing::warn!(%endpoint, "worker ejected: too many consecutive failures");
        }
    }

    /// A circuit changed its state.
    pub(crate) fn circuit_changed(&self, circuit: &Circuit) {
        let state = circuit.state();
        self.metrics.circuit_changed(!circuit.session_id.is_empty(), state);
        // A caller can open one for each of its sessions.
        if !openskill_log::admits("a circuit changed") {
            return;
        }
        tracing::info!(
            target: "openskill::circuit",
            skill_id = circuit.skill_id,
            session_id = circuit.session_id,
            state = state.as_str_name().trim_start_matches("CIRCUIT_STATE_"),
            retry_after_ms = circuit.retry_after_ms,
            "circuit changed"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Debug;
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// What is logged at the default level.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<String>>);

    impl Subscriber for Log {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }

        fn event(&self, event: &Event<'_>) {
            event.record(&mut self.clone());
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn enter(&self, _: &Id) {}
        fn exit(&self, _: &Id) {}
    }

    impl Visit for Log {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            *self.0.lock().unwrap() += &format!("{field}={value:?} ");
        }
    }

    #[test]
    fn what_a_worker_said_when_a_call_failed_is_not_logged() {
        let log = Log::default();
        tracing::subscriber::with_default(log.clone(), || {
            let observer = Observer::default();
            observer.attempt_not_started(&"worker:1", "declined", "canary-4711");
            observer.attempt_lost(&"worker:1", "canary-4711");
        });
        let log = log.0.lock().unwrap();
        assert!(log.contains("refusal=\"declined\" reason_bytes=11") && log.contains("was lost"), "{log}");
        assert!(!log.contains("canary"), "{log}");
    }
}
