//! Log lines and metrics of calls, circuits and workers. Other modules report events here, and count in [`metrics`]
//! those that are not logged; this module makes no decisions. Events that peers can cause at will are all counted, but
//! logged only as [`openskill_telemetry::log::admits`] allows.
//!
//! - [`metrics`]: the metrics, served at `GET /metrics`
//! - [`call_record`]: one log line per call, however it ends
//! - [`call_event`]: events during a call; [`recording`]: all data of an ended call; [`recorder`]: stores recordings
//! - [`spans`]: the OpenTelemetry spans of a call

use std::time::Duration;

use openskill_identity::shares::Pool;
use openskill_proto::v1::Circuit;
use openskill_store::observed::{Access, StoreObserver};
use openskill_telemetry::trace::Tracer;

pub(crate) mod call_event;
pub(crate) mod call_record;
pub(crate) mod metrics;
pub(crate) mod recorder;
pub(crate) mod recording;
mod spans;

use crate::state::limits::SharedLimit;
use metrics::Metrics;
use recorder::Recorder;

/// Turns events into metrics and log lines.
#[derive(Debug)]
pub(crate) struct Observer {
    pub(crate) metrics: Metrics,
    /// Exports the spans of calls. None if tracing is off.
    pub(crate) tracer: Option<Tracer>,
    /// Records whole calls. None if recording is off.
    pub(crate) recorder: Option<Recorder>,
    /// Accounts for messages from skills and users that wait for the end of their call to be recorded.
    pub(crate) content_pool: Pool,
}

impl Default for Observer {
    fn default() -> Self {
        Self {
            metrics: Metrics::default(),
            tracer: None,
            recorder: None,
            content_pool: Pool::new(SharedLimit::Recordings.bound()),
        }
    }
}

impl StoreObserver for Observer {
    fn transaction_ended(&self, access: Access, duration: Duration, failed: bool) {
        self.metrics.transaction_ended(access, duration, failed);
    }
}

impl Observer {
    /// Gives at most `skills` skills their own metric series. Without a `tracer`, calls are not traced.
    pub(crate) fn new(skills: usize, tracer: Option<Tracer>) -> Self {
        Self { metrics: Metrics::new(skills), tracer, ..Self::default() }
    }

    /// An MCP client called `method` at a view.
    pub(crate) fn mcp_request(&self, view: &str, revision: &str, method: &str) {
        self.metrics.mcp.inc(view, revision, method);
    }

    /// A worker did not start the skill. `refusal` names the kind. `reason` may be text from a remote peer, so it
    /// stays out of the log.
    pub(crate) fn attempt_not_started(&self, endpoint: &impl std::fmt::Display, refusal: &'static str, reason: &str) {
        if openskill_telemetry::log::admits("a skill did not start") {
            let reason_bytes = reason.len();
            tracing::info!(%endpoint, refusal, reason_bytes, "the skill did not start on this worker");
            tracing::debug!(%endpoint, reason, "skill start failed");
        }
    }

    /// A worker was lost while it ran a call.
    pub(crate) fn attempt_lost(&self, endpoint: &impl std::fmt::Display, reason: &str) {
        if openskill_telemetry::log::admits("a worker was lost") {
            let reason_bytes = reason.len();
            tracing::warn!(%endpoint, reason_bytes, "a worker was lost during a call");
            tracing::debug!(%endpoint, reason, "worker connection failed");
        }
    }

    /// A worker failed too often, and gets no calls until its ejection ends.
    pub(crate) fn worker_ejected(&self, endpoint: &impl std::fmt::Display) {
        self.metrics.ejections.inc();
        if openskill_telemetry::log::admits("a worker was ejected") {
            tracing::warn!(%endpoint, "worker ejected: too many consecutive failures");
        }
    }

    /// A circuit changed its state.
    pub(crate) fn circuit_changed(&self, circuit: &Circuit) {
        let state = circuit.state();
        self.metrics.circuit_changed(!circuit.session_id.is_empty(), state);
        // A caller can open a circuit for each of its sessions, so these lines are rate-limited.
        if !openskill_telemetry::log::admits("a circuit breaker changed") {
            return;
        }
        tracing::info!(
            target: "openskill::circuit",
            skill_id = circuit.skill_id,
            session_id = circuit.session_id,
            state = state.as_str_name().trim_start_matches("CIRCUIT_STATE_"),
            retry_after_ms = circuit.retry_after_ms,
            "circuit breaker changed its state"
        );
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use std::fmt::Debug;
    use std::sync::Arc;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    use super::*;

    /// Collects the log output at the default level.
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
            *self.0.lock() += &format!("{field}={value:?} ");
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
        let log = log.0.lock();
        assert!(log.contains("refusal=\"declined\" reason_bytes=11") && log.contains("was lost"), "{log}");
        assert!(!log.contains("canary"), "{log}");
    }
}
