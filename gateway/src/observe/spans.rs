//! The spans of a call at the gateway, made at its end from what was noted.
//!
//! ```text
//! 0  server    openskill.v1.SkillService/Invoke, or POST /skills/{id}:invoke
//! 1  internal  execute_tool {skill}, if there is such a skill
//! 2… client    openskill.v1.WorkerService/Execute or ExecuteStream, one for each attempt
//! ```
//!
//! They hold codes, ids and names of ours. They hold no arguments, no results and no messages.

use std::time::{Duration, Instant};

use openskill_proto::v1::{Blame, ErrorCode, ExecuteResult, Repair, SkillError};
use openskill_trace::call::{CallSpans, Span};
use openskill_trace::{KeyValue, SpanKind};

use super::call_event::{AttemptSummary, CallEvent};
use super::recording::Kept;
use crate::call::door::Protocol;
use crate::call::request::Call;

/// The spans that are there before any attempt.
pub(super) const SERVER: u32 = 0;
pub(super) const TOOL: u32 = 1;

/// How many repairs of a call become span events, and how long a path in them may be.
const MAX_REPAIRS: usize = 32;
const MAX_PATH_BYTES: usize = 128;

/// The span of an attempt. Attempts count from 1.
pub(super) fn of_attempt(number: u32) -> u32 {
    TOOL + number
}

/// A call that has ended.
pub(super) struct Ended<'a> {
    pub(super) call: &'a Call,
    pub(super) has_skill: bool,
    /// It got no permit.
    pub(super) was_refused: bool,
    pub(super) kept: &'a Kept,
    pub(super) result: &'a ExecuteResult,
    pub(super) attempts: u32,
    pub(super) at: Instant,
    /// Why the spans are exported although the call was not sampled.
    pub(super) reason: Option<&'static str>,
}

/// Adds all spans of a call.
pub(super) fn add(spans: &CallSpans, ended: &Ended<'_>) {
    spans.add(server(ended));
    if !ended.has_skill {
        return;
    }
    spans.add(tool(ended));
    for (begun, event) in &ended.kept.events {
        if let CallEvent::AttemptBegan { number, worker, streams } = event {
            let method = if *streams { EXECUTE_STREAM } else { EXECUTE };
            spans.add(attempt(ended, *begun, *number, (worker, method)));
        }
    }
}

fn server(ended: &Ended<'_>) -> Span {
    let (call, failure) = (ended.call, ended.failure());
    let door = call.door;
    let mut attributes = vec![KeyValue::new("openskill.trace_id", call.trace.id.clone())];
    match door.protocol {
        Protocol::Grpc => {
            // A result that says what failed is an answer. Only refusals are statuses.
            let is_status = ended.was_refused && !door.name.ends_with("Many") || !door.streams && ended.is_status();
            let status = failure.filter(|_| is_status).map_or("OK", |(code, _)| code.meaning().grpc.name());
            attributes.extend([
                KeyValue::new("rpc.system.name", "grpc"),
                KeyValue::new("rpc.method", door.name),
                KeyValue::new("rpc.response.status_code", status),
            ]);
        }
        Protocol::Rest | Protocol::Mcp => {
            let is_mcp = door.protocol == Protocol::Mcp;
            attributes.extend(is_mcp.then(|| KeyValue::new("mcp.method.name", "tools/call")));
            // What failed is said in the result.
            let is_stream = is_mcp || door.streams && !ended.was_refused;
            let status = failure.filter(|_| !is_stream).map_or(200, |(code, _)| code.meaning().http);
            attributes.extend([
                KeyValue::new("http.request.method", "POST"),
                KeyValue::new("http.route", door.route()),
                // Not as it came: the path has a caller's text in it.
                KeyValue::new("url.path", door.route()),
                KeyValue::new("url.scheme", "http"),
                KeyValue::new("http.response.status_code", i64::from(status)),
            ]);
        }
    }
    attributes.extend(ended.reason.map(|reason| KeyValue::new("openskill.kept_because", reason)));
    if !ended.has_skill {
        attributes.push(KeyValue::new("gen_ai.tool.call.id", call.call_id.clone()));
    }
    ended.describe(&mut attributes);
    Span {
        number: SERVER,
        parent: None,
        name: door.name.into(),
        kind: SpanKind::Server,
        begun: call.received,
        ended: ended.at,
        attributes,
        events: if ended.has_skill { Vec::new() } else { events(ended) },
        // A server did its work if the caller is to blame.
        failed: failure.is_some_and(|(_, blame)| blame != Blame::Caller),
    }
}

fn tool(ended: &Ended<'_>) -> Span {
    let call = ended.call;
    let mut attributes = vec![
        KeyValue::new("gen_ai.operation.name", "execute_tool"),
        KeyValue::new("gen_ai.tool.name", call.skill_id.clone()),
        KeyValue::new("gen_ai.tool.call.id", call.call_id.clone()),
        KeyValue::new("gen_ai.tool.type", "function"),
    ];
    if !ended.result.version.is_empty() {
        attributes.push(KeyValue::new("openskill.skill.version", ended.result.version.clone()));
    }
    if !ended.result.jail.is_empty() {
        attributes.push(KeyValue::new("openskill.jail", ended.result.jail.clone()));
    }
    if ended.kept.left_out > 0 {
        attributes.push(KeyValue::new("openskill.events_left_out", ended.kept.left_out as i64));
    }
    ended.describe(&mut attributes);
    Span {
        number: TOOL,
        parent: Some(SERVER),
        name: format!("execute_tool {}", call.skill_id).into(),
        kind: SpanKind::Internal,
        begun: call.received,
        ended: ended.at,
        attributes,
        events: events(ended),
        failed: ended.result.error.is_some(),
    }
}

fn attempt(call: &Ended<'_>, begun: Instant, number: u32, (worker, method): (&str, &'static str)) -> Span {
    let summary = call.kept.events.iter().find_map(|(at, event)| match event {
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
        number: of_attempt(number),
        parent: Some(TOOL),
        name: method.into(),
        kind: SpanKind::Client,
        begun,
        ended: summary.map_or(call.at, |(at, _)| at),
        attributes,
        events: Vec::new(),
        failed: summary.is_some_and(|(_, summary)| summary.failure.is_some()),
    }
}

const EXECUTE: &str = "openskill.v1.WorkerService/Execute";
const EXECUTE_STREAM: &str = "openskill.v1.WorkerService/ExecuteStream";

/// The address of a worker, by the semantic conventions: a host and a port, or a socket's path.
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
    let named = [("openskill.worker.id", &summary.worker_id), ("openskill.runner", &summary.runner)];
    attributes
        .extend(named.into_iter().filter(|(_, it)| !it.is_empty()).map(|(key, it)| KeyValue::new(key, it.clone())));
    if summary.queued > Duration::ZERO {
        attributes.push(KeyValue::new("openskill.queue_ms", summary.queued.as_micros() as f64 / 1000.0));
    }
    if let Some((code, blame)) = summary.failure {
        attributes.extend(of_failure(code, blame));
        attributes.push(KeyValue::new("openskill.may_have_run", summary.may_have_run));
    }
}

fn of_failure(code: ErrorCode, blame: Blame) -> [KeyValue; 2] {
    [KeyValue::new("error.type", code.as_str_name()), KeyValue::new("openskill.blame", blame.json_name())]
}

impl Ended<'_> {
    fn failure(&self) -> Option<(ErrorCode, Blame)> {
        self.result.error.as_ref().map(|error| (error.code(), error.blame()))
    }

    fn is_status(&self) -> bool {
        self.result.error.as_ref().is_some_and(SkillError::is_status)
    }

    /// What every span of the whole call says.
    fn describe(&self, attributes: &mut Vec<KeyValue>) {
        let named = [("openskill.worker.id", &self.result.worker_id), ("openskill.runner", &self.result.runner)];
        let known = named.into_iter().filter(|(_, it)| !it.is_empty());
        attributes.extend(known.map(|(key, it)| KeyValue::new(key, it.clone())));
        attributes.push(KeyValue::new("openskill.attempts", i64::from(self.attempts)));
        if let Some((code, blame)) = self.failure() {
            attributes.extend(of_failure(code, blame));
        }
    }
}

type SpanEvent = (&'static str, Instant, Vec<KeyValue>);

fn events(ended: &Ended<'_>) -> Vec<SpanEvent> {
    ended.kept.events.iter().flat_map(|(at, event)| span_events(*at, event)).collect()
}

fn span_events(at: Instant, event: &CallEvent) -> Vec<SpanEvent> {
    let one = |name, attributes| vec![(name, at, attributes)];
    match event {
        CallEvent::Prepared { repairs, .. } => {
            repairs.iter().take(MAX_REPAIRS).map(|it| ("openskill.repair", at, of_repair(it))).collect()
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

/// Where, and by which rule. The values are the caller's.
fn of_repair(repair: &Repair) -> Vec<KeyValue> {
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
