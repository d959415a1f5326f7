//! The spans of a call at the gateway, created at its end from the noted events.
//!
//! ```text
//! 0  server    openskill.v1.SkillService/Invoke, or POST /skills/{id}:invoke
//! 1  internal  execute_tool {skill}, if the skill exists
//! 2… client    openskill.v1.WorkerService/Execute or ExecuteStream, one for each attempt
//! ```
//!
//! They contain codes, ids and the gateway's own names, but no arguments, results or messages.

use std::time::{Duration, Instant};

use openskill_proto::v1::{Blame, ErrorCode, ExecuteResult, Repair, SkillError};
use openskill_telemetry::trace::call::{CallSpans, Span};
use openskill_telemetry::trace::{KeyValue, SpanKind};

use super::call_event::{AttemptSummary, CallEvent};
use super::recording::Recording;
use crate::call::operation::{Protocol, Streaming};

/// The ids of the spans that precede all attempts.
pub(super) const SERVER: u32 = 0;
pub(super) const TOOL: u32 = 1;

/// The maximum number of repairs that become span events, and the maximum length of a path in them.
const MAX_REPAIRS: usize = 32;
const MAX_PATH_BYTES: usize = 128;

/// Returns the span id of an attempt. Attempts count from 1.
pub(super) fn attempt_span(number: u32) -> u32 {
    TOOL + number
}

/// Adds the server, internal and client spans of a call. `was_refused`: it was refused a permit. `reason`: why the
/// spans are exported although the call was not sampled. None if it was.
pub(super) fn add(spans: &CallSpans, ended: &Recording, was_refused: bool, reason: Option<&'static str>) {
    spans.add(server(ended, was_refused, reason));
    if !ended.has_skill {
        return;
    }
    spans.add(tool(ended));
    for (begun, event) in &ended.events {
        if let CallEvent::AttemptBegan { number, worker, streams } = event {
            spans.add(attempt(ended, *begun, *number, worker, *streams));
        }
    }
}

fn server(ended: &Recording, was_refused: bool, reason: Option<&'static str>) -> Span {
    let (call, failure) = (&ended.call, ended.failure());
    let operation = call.operation;
    let mut attributes = vec![KeyValue::new("openskill.trace_id", call.trace.id.clone())];
    match operation.protocol {
        Protocol::Grpc => {
            // An error within a result is a successful gRPC response. Only refusals are statuses.
            let is_status = match operation.streaming {
                Streaming::Neither => was_refused || ended.result.error.as_ref().is_some_and(SkillError::is_status),
                Streaming::Server => was_refused,
                Streaming::Both => false,
            };
            let status = failure.filter(|_| is_status).map_or("OK", |(code, _)| code.meaning().grpc.name());
            attributes.extend([
                KeyValue::new("rpc.system.name", "grpc"),
                KeyValue::new("rpc.method", operation.name),
                KeyValue::new("rpc.response.status_code", status),
            ]);
        }
        Protocol::Rest | Protocol::Mcp => {
            let is_mcp = operation.protocol == Protocol::Mcp;
            attributes.extend(is_mcp.then(|| KeyValue::new("mcp.method.name", "tools/call")));
            // The error is in the result.
            let is_stream = is_mcp || operation.streaming != Streaming::Neither && !was_refused;
            let status = failure.filter(|_| !is_stream).map_or(200, |(code, _)| code.meaning().http);
            attributes.extend([
                KeyValue::new("http.request.method", "POST"),
                KeyValue::new("http.route", operation.path),
                // The template, because the actual path contains a caller's text.
                KeyValue::new("url.path", operation.path),
                KeyValue::new("url.scheme", "http"),
                KeyValue::new("http.response.status_code", i64::from(status)),
            ]);
        }
    }
    attributes.extend(reason.map(|reason| KeyValue::new("openskill.kept_because", reason)));
    if !ended.has_skill {
        attributes.push(KeyValue::new("gen_ai.tool.call.id", call.call_id.clone()));
    }
    ended.describe(&mut attributes);
    Span {
        number: SERVER,
        parent: None,
        name: operation.name.into(),
        kind: SpanKind::Server,
        begun: call.received,
        ended: ended.ended,
        attributes,
        events: if ended.has_skill { Vec::new() } else { events(ended) },
        // The server did not fail if the fault is the caller's.
        failed: failure.is_some_and(|(_, blame)| blame != Blame::Caller),
    }
}

fn tool(ended: &Recording) -> Span {
    let call = &ended.call;
    let mut attributes = vec![
        KeyValue::new("gen_ai.operation.name", "execute_tool"),
        KeyValue::new("gen_ai.tool.name", call.skill_id.clone()),
        KeyValue::new("gen_ai.tool.call.id", call.call_id.clone()),
        KeyValue::new("gen_ai.tool.type", "function"),
    ];
    let ExecuteResult { version, jail, .. } = &ended.result;
    attributes.extend(texts([("openskill.skill.version", version), ("openskill.jail", jail)]));
    if ended.left_out > 0 {
        attributes.push(KeyValue::new("openskill.events_left_out", ended.left_out as i64));
    }
    ended.describe(&mut attributes);
    Span {
        number: TOOL,
        parent: Some(SERVER),
        name: format!("execute_tool {}", call.skill_id).into(),
        kind: SpanKind::Internal,
        begun: call.received,
        ended: ended.ended,
        attributes,
        events: events(ended),
        failed: ended.result.error.is_some(),
    }
}

fn attempt(call: &Recording, begun: Instant, number: u32, worker: &str, streams: bool) -> Span {
    let method = if streams { EXECUTE_STREAM } else { EXECUTE };
    let summary = call.events.iter().find_map(|(at, event)| match event {
        CallEvent::AttemptEnded(summary) if summary.number == number => Some((*at, summary)),
        _ => None,
    });
    let mut attributes = vec![
        KeyValue::new("rpc.system.name", "grpc"),
        KeyValue::new("rpc.method", method),
        KeyValue::new("openskill.attempt", i64::from(number)),
    ];
    attributes.extend(server_of(worker));
    if let Some((_, summary)) = summary {
        describe_attempt(summary, &mut attributes);
    }
    Span {
        number: attempt_span(number),
        parent: Some(TOOL),
        name: method.into(),
        kind: SpanKind::Client,
        begun,
        ended: summary.map_or(call.ended, |(at, _)| at),
        attributes,
        events: Vec::new(),
        failed: summary.is_some_and(|(_, summary)| summary.failure.is_some()),
    }
}

const EXECUTE: &str = "openskill.v1.WorkerService/Execute";
const EXECUTE_STREAM: &str = "openskill.v1.WorkerService/ExecuteStream";

/// Returns the attributes of a worker's address, as the semantic conventions require: host and port, or socket
/// path.
fn server_of(worker: &str) -> Vec<KeyValue> {
    if let Some(path) = worker.strip_prefix("unix:") {
        return vec![KeyValue::new("server.address", path.to_owned())];
    }
    let authority = worker.split_once("//").map_or(worker, |(_, authority)| authority);
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let address = KeyValue::new("server.address", host.trim_matches(['[', ']']).to_owned());
    let port = port.parse::<u16>().ok().map(|port| KeyValue::new("server.port", i64::from(port)));
    std::iter::once(address).chain(port).collect()
}

fn describe_attempt(summary: &AttemptSummary, attributes: &mut Vec<KeyValue>) {
    attributes.push(KeyValue::new("rpc.response.status_code", summary.status));
    attributes.extend(texts([("openskill.worker.id", &summary.worker_id), ("openskill.runner", &summary.runner)]));
    if summary.queued > Duration::ZERO {
        attributes.push(KeyValue::new("openskill.queue_ms", summary.queued.as_micros() as f64 / 1000.0));
    }
    if let Some((code, blame)) = summary.failure {
        attributes.extend(failure_attributes(code, blame));
        attributes.push(KeyValue::new("openskill.may_have_run", summary.may_have_run));
    }
}

/// Returns the attributes whose text is not empty.
fn texts(named: [(&'static str, &String); 2]) -> impl Iterator<Item = KeyValue> {
    named.into_iter().filter(|(_, it)| !it.is_empty()).map(|(key, it)| KeyValue::new(key, it.clone()))
}

fn failure_attributes(code: ErrorCode, blame: Blame) -> [KeyValue; 2] {
    [KeyValue::new("error.type", code.as_str_name()), KeyValue::new("openskill.blame", blame.json_name())]
}

impl Recording {
    fn failure(&self) -> Option<(ErrorCode, Blame)> {
        self.result.error.as_ref().map(|error| (error.code(), error.blame()))
    }

    /// Adds the attributes that every span about the whole call has.
    fn describe(&self, attributes: &mut Vec<KeyValue>) {
        let ExecuteResult { worker_id, runner, .. } = &self.result;
        attributes.extend(texts([("openskill.worker.id", worker_id), ("openskill.runner", runner)]));
        attributes.push(KeyValue::new("openskill.attempts", i64::from(self.attempts)));
        if let Some((code, blame)) = self.failure() {
            attributes.extend(failure_attributes(code, blame));
        }
    }
}

type SpanEvent = (&'static str, Instant, Vec<KeyValue>);

fn events(ended: &Recording) -> Vec<SpanEvent> {
    ended.events.iter().flat_map(|(at, event)| span_events(*at, event)).collect()
}

fn span_events(at: Instant, event: &CallEvent) -> Vec<SpanEvent> {
    let one = |name, attributes| vec![(name, at, attributes)];
    match event {
        CallEvent::Prepared { repairs, .. } => {
            repairs.iter().take(MAX_REPAIRS).map(|it| ("openskill.repair", at, repair_attributes(it))).collect()
        }
        CallEvent::Rejected => one("openskill.arguments_rejected", Vec::new()),
        CallEvent::Circuit { scope, state } => one(
            "openskill.circuit",
            vec![KeyValue::new("openskill.circuit.scope", *scope), KeyValue::new("openskill.circuit.state", *state)],
        ),
        CallEvent::Retried { number, elsewhere } => one(
            "openskill.retry",
            vec![
                KeyValue::new("openskill.attempt", i64::from(*number)),
                KeyValue::new("openskill.retry.elsewhere", *elsewhere),
            ],
        ),
        CallEvent::Asked(_) => one("openskill.question", Vec::new()),
        CallEvent::Answered(_) => one("openskill.answer", Vec::new()),
        CallEvent::Replayed => one("openskill.replay", Vec::new()),
        CallEvent::AttemptBegan { .. } | CallEvent::AttemptEnded(_) | CallEvent::Relayed(_) => Vec::new(),
    }
}

/// Returns the path and the rule of a repair. Omits the values, which are the caller's data.
fn repair_attributes(repair: &Repair) -> Vec<KeyValue> {
    let path = &repair.path[..repair.path.floor_char_boundary(MAX_PATH_BYTES)];
    vec![
        KeyValue::new("openskill.repair.kind", repair.kind.clone()),
        KeyValue::new("openskill.repair.path", path.to_owned()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_server_of_an_attempt_is_a_host_and_a_port_or_the_path_of_a_socket() {
        let port = |port| KeyValue::new("server.port", port);
        let address = |address: &'static str| KeyValue::new("server.address", address);
        for (worker, expected) in [
            ("http://worker-1:9000", vec![address("worker-1"), port(9000)]),
            ("http://[::1]:9000", vec![address("::1"), port(9000)]),
            ("unix:/run/openskill/worker-1.sock", vec![address("/run/openskill/worker-1.sock")]),
        ] {
            assert_eq!(server_of(worker), expected);
        }
    }
}
