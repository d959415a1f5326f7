//! Creates the spans of a call on this worker.
//!
//! ```text
//! 0  server    openskill.v1.WorkerService/Execute, with the time in the queue
//! 1  internal  run {runner}, for runners that run the skill here
//! 2… client    one for each request to an HTTP backend or an MCP server
//! ```
//!
//! The gateway decides which calls are sampled. Failed calls' spans are always exported. Spans contain codes, ids
//! and names that openskill defines, but no arguments, results, messages or URLs.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use openskill_proto::error::grpc_name;
use openskill_proto::trace::TraceContext;
use openskill_proto::v1::{Blame, ErrorCode, ExecuteRequest, ExecuteResult};
use openskill_telemetry::trace::call::{CallSpans, ClientSpan, Span};
use openskill_telemetry::trace::{KeyValue, SpanKind, Tracer};
use parking_lot::Mutex;
use tonic::Status;

use crate::manifest::python::Isolation;
use crate::manifest::session::Operation;
use crate::manifest::{Manifest, RunnerSpec};

const SERVER: u32 = 0;
const RUN: u32 = 1;

/// A run's position in its OpenTelemetry trace. Cheap to clone. Empty if calls are not traced.
#[derive(Debug, Clone, Default)]
pub struct RunTrace {
    spans: Option<Arc<CallSpans>>,
    /// How the skill's process was started. `None` if calls are not traced.
    started: Option<Arc<Mutex<Option<&'static str>>>>,
}

impl RunTrace {
    /// Records how the skill's process is started: `warm`, `fork` or `cold`. The last record counts, because a
    /// warm pool may refuse.
    pub(crate) fn record_start(&self, how: &'static str) {
        if let Some(started) = &self.started {
            *started.lock() = Some(how);
        }
    }

    /// Begins the span of a request to a server. `name` must have low cardinality, and `attributes` must not
    /// contain secrets.
    pub(crate) fn request(
        &self,
        name: impl Into<Cow<'static, str>>,
        attributes: Vec<KeyValue>,
        deadline: Instant,
    ) -> Option<ClientSpan> {
        self.spans.as_ref().map(|spans| ClientSpan::begin(spans, name, attributes, deadline))
    }
}

/// A call that this worker serves. Dropping it before `end` means that it was cancelled.
pub(crate) struct ServedCall<'w> {
    pub(crate) trace: RunTrace,
    worker_id: &'w str,
    call_id: String,
    method: &'static str,
    received: Instant,
    run: Option<Run>,
    has_ended: bool,
}

/// The part of the call in which the skill runs.
struct Run {
    begun: Instant,
    manifest: Arc<Manifest>,
}

impl<'w> ServedCall<'w> {
    /// Records that a call arrived. A call without a valid parent is not traced.
    pub(crate) fn begin(
        tracer: Option<&Tracer>,
        worker_id: &'w str,
        request: &ExecuteRequest,
        traceparent: &str,
        streams: bool,
    ) -> Self {
        let received = Instant::now();
        let parent = tracer.and_then(|tracer| Some((tracer, TraceContext::parse(traceparent)?)));
        let spans = parent.map(|(tracer, parent)| Arc::new(tracer.follow(parent, received)));
        let call_id = spans.as_ref().map_or_else(String::new, |_| request.call_id.clone());
        let method =
            if streams { "openskill.v1.WorkerService/ExecuteStream" } else { "openskill.v1.WorkerService/Execute" };
        let trace = RunTrace { started: spans.as_ref().map(|_| Arc::default()), spans };
        Self { trace, worker_id, call_id, method, received, run: None, has_ended: false }
    }

    /// Records that the skill starts to run. Returns the trace context for the skill: the run's span, if it has
    /// one.
    pub(crate) fn run(&mut self, manifest: &Arc<Manifest>, traceparent: String) -> String {
        let Some(spans) = &self.trace.spans else { return traceparent };
        self.run = Some(Run { begun: Instant::now(), manifest: Arc::clone(manifest) });
        spans.context(if has_run_span(&manifest.how) { RUN } else { SERVER }).to_traceparent()
    }

    /// Records that the call ended.
    pub(crate) fn end(mut self, ended: &Result<ExecuteResult, Status>) {
        let (status, result) = match ended {
            Ok(result) => ("OK", Some(result)),
            Err(status) => (grpc_name(status.code()), None),
        };
        let failure = result.and_then(|it| it.error.as_ref()).map(|error| (error.code(), error.blame()));
        self.finish(status, failure, result);
    }

    fn finish(&mut self, status: &'static str, failure: Option<(ErrorCode, Blame)>, result: Option<&ExecuteResult>) {
        self.has_ended = true;
        let Some(spans) = self.trace.spans.clone() else { return };
        // A refusal is not a failure yet. The call may go to another worker, and the gateway reports how it ended.
        if !spans.is_sampled() && failure.is_none() {
            return spans.discard();
        }
        let run = self.run.take();
        if let Some(run) = run.as_ref().filter(|it| has_run_span(&it.manifest.how)) {
            spans.add(self.run_span(run, failure, result));
        }
        spans.add(self.server_span(status, failure, result, run.as_ref().map(|it| it.manifest.as_ref())));
        spans.keep();
    }

    fn server_span(
        &self,
        status: &'static str,
        failure: Option<(ErrorCode, Blame)>,
        result: Option<&ExecuteResult>,
        manifest: Option<&Manifest>,
    ) -> Span {
        let mut attributes = vec![
            KeyValue::new("rpc.system.name", "grpc"),
            KeyValue::new("rpc.method", self.method),
            KeyValue::new("rpc.response.status_code", status),
            KeyValue::new("openskill.worker.id", self.worker_id.to_owned()),
            KeyValue::new("gen_ai.tool.call.id", self.call_id.clone()),
        ];
        if let Some(manifest) = manifest {
            attributes.push(KeyValue::new("gen_ai.tool.name", manifest.id.clone()));
            attributes.push(KeyValue::new("openskill.runner", manifest.runner.clone()));
        }
        if let Some(result) = result {
            attributes.push(KeyValue::new("openskill.queue_ms", result.queued_us as f64 / 1000.0));
        }
        attributes.extend(failure.into_iter().flat_map(|(code, blame)| failure_attributes(code, blame)));
        let refused = failure.is_none() && ["UNAVAILABLE", "INTERNAL", "UNKNOWN"].contains(&status);
        if failure.is_none() && status != "OK" {
            attributes.push(KeyValue::new("error.type", status));
        }
        Span {
            kind: SpanKind::Server,
            attributes,
            // If the caller is to blame, the server did its work.
            failed: refused || failure.is_some_and(|(_, blame)| blame != Blame::Caller),
            ..Span::new(SERVER, self.method, self.received)
        }
    }

    fn run_span(&self, run: &Run, failure: Option<(ErrorCode, Blame)>, result: Option<&ExecuteResult>) -> Span {
        let manifest = &run.manifest;
        let mut attributes = vec![KeyValue::new("openskill.runner", manifest.runner.clone())];
        attributes.extend(isolation(&manifest.how).map(|it| KeyValue::new("openskill.isolation", it)));
        let started = self.trace.started.as_ref();
        let started = started.and_then(|it| *it.lock());
        attributes.extend(started.map(|it| KeyValue::new("openskill.start", it)));
        let jail = result.map(|it| it.jail.as_str()).filter(|it| !it.is_empty());
        attributes.extend(jail.map(|it| KeyValue::new("openskill.jail", it.to_owned())));
        attributes.extend(failure.into_iter().flat_map(|(code, blame)| failure_attributes(code, blame)));
        let failed = failure.is_some();
        Span { attributes, failed, ..Span::new(RUN, format!("run {}", manifest.runner), run.begun) }
    }
}

impl Drop for ServedCall<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.finish("CANCELLED", Some((ErrorCode::Cancelled, Blame::Caller)), None);
        }
    }
}

/// Returns whether the run gets its own span. For HTTP and MCP skills, the span of the request is sufficient.
fn has_run_span(how: &RunnerSpec) -> bool {
    !matches!(how, RunnerSpec::Http(_) | RunnerSpec::Mcp(_) | RunnerSpec::McpTool(_))
}

fn isolation(how: &RunnerSpec) -> Option<&'static str> {
    match how {
        RunnerSpec::Python(python) => Some(match python.isolation {
            Isolation::Process => "process",
            Isolation::Fork => "fork",
            Isolation::Shared => "shared",
        }),
        RunnerSpec::Exec(_) => Some("process"),
        RunnerSpec::Session(session) if session.operation == Operation::Execute => Some("session"),
        RunnerSpec::Docker(_) => Some("container"),
        RunnerSpec::Function(_) => Some("none"),
        RunnerSpec::Session(_)
        | RunnerSpec::Http(_)
        | RunnerSpec::Mcp(_)
        | RunnerSpec::McpTool(_)
        | RunnerSpec::Agent(_)
        | RunnerSpec::Gateway
        | RunnerSpec::Unknown => None,
    }
}

fn failure_attributes(code: ErrorCode, blame: Blame) -> [KeyValue; 2] {
    [KeyValue::new("error.type", code.as_str_name()), KeyValue::new("openskill.blame", blame.json_name())]
}
