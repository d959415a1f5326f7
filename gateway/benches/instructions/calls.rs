//! Calls that are counted: the preparation of arguments, and whole calls from a request at the gateway's face, all layers
//! included, to the last byte of the answer. No subscriber listens for logs and traces.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf as _, Bytes};
use http::{HeaderName, Request};
use http_body_util::BodyExt as _;
use openskill_proto::v1::invoke_request::Arguments;
use openskill_proto::v1::{InvokeEvent, InvokeRequest, SkillResult, invoke_event::Event};
use openskill_telemetry::trace::Tracer;
use openskill_telemetry::trace::queue::Queue;
use openskill_telemetry::trace::sampler::Sampler;
use prost::Message;
use serde_json::Value;
use tower::ServiceExt as _;

use super::cases::uncounted;
use super::in_memory::{self, SKILL, VALID, schema};
use crate::arguments::{Definition, Policy, Rules, structs};
use crate::gateway::Shard;
use crate::observe::recorder::Recorder;
use crate::serve::faces::Faces;
use crate::serve::faces::grpc::health::Health;
use crate::serve::stack::stack;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// Arguments that fit.
pub(super) fn arguments_valid() -> Box<dyn FnMut()> {
    arguments(VALID, Some(0))
}

/// A number that came as text.
pub(super) fn arguments_repaired() -> Box<dyn FnMut()> {
    arguments(&VALID.replace("25", "\"25\""), Some(1))
}

/// Text that is not a number: the model gets feedback.
pub(super) fn arguments_refused() -> Box<dyn FnMut()> {
    arguments(&VALID.replace("25", "\"many\""), None)
}

fn arguments(text: &str, repairs: Option<usize>) -> Box<dyn FnMut()> {
    let definition = Definition::compile(&schema().to_string(), Rules::default(), &[]).unwrap();
    let text = text.to_owned();
    Box::new(move || {
        let prepared = definition.prepare(black_box(&text), Policy::Repair);
        assert_eq!(prepared.ok().map(|it| it.repairs.len()), repairs);
    })
}

pub(super) fn invoke(workers: usize) -> Box<dyn FnMut()> {
    calls("Invoke", workers, Arguments::InputJson(VALID.to_owned()), Watch::default(), is_success)
}

/// A call that is recorded, and the work of the recorder's thread for it, but for its file.
pub(super) fn invoke_recorded() -> Box<dyn FnMut()> {
    let (recorder, work) = Recorder::manual();
    let watch = Watch { recorder: Some(recorder), after: Box::new(work), ..Watch::default() };
    calls("Invoke", 1, Arguments::InputJson(VALID.to_owned()), watch, is_success)
}

/// A call of a trace that is not sampled, of which nothing is exported.
pub(super) fn invoke_unsampled() -> Box<dyn FnMut()> {
    calls("Invoke", 1, Arguments::InputJson(VALID.to_owned()), Watch::traces(0.0), is_success)
}

/// A call whose spans go to the exporter.
pub(super) fn invoke_sampled() -> Box<dyn FnMut()> {
    calls("Invoke", 1, Arguments::InputJson(VALID.to_owned()), Watch::traces(1.0), is_success)
}

/// A call that sends a `Struct` and gets a `Value`.
pub(super) fn invoke_struct() -> Box<dyn FnMut()> {
    let arguments = Arguments::Input(structs::struct_from_json(VALID).unwrap());
    calls("Invoke", 1, arguments, Watch::default(), is_success)
}

/// Accepted, one event, the result.
pub(super) fn invoke_stream() -> Box<dyn FnMut()> {
    calls("InvokeStream", 1, Arguments::InputJson(VALID.to_owned()), Watch::default(), |answer| {
        let events = messages::<InvokeEvent>(answer);
        let last = events.last().and_then(|it| it.event.clone());
        events.len() == 3 && matches!(last, Some(Event::Result(result)) if result.success)
    })
}

fn is_success(answer: Bytes) -> bool {
    matches!(&messages::<SkillResult>(answer)[..], [result] if result.success && result.output.is_some())
}

/// Who watches the calls.
struct Watch {
    recorder: Option<Recorder>,
    tracer: Option<Tracer>,
    /// What is done after each call, and counted.
    after: Box<dyn FnMut()>,
}

impl Default for Watch {
    fn default() -> Self {
        Self { recorder: None, tracer: None, after: Box::new(|| ()) }
    }
}

impl Watch {
    /// Traces of which this share is sampled. What is exported is not counted.
    fn traces(ratio: f64) -> Self {
        let queue = Arc::new(Queue::new(64, 64));
        let sampler = Sampler::from_name("traceidratio", ratio).unwrap().unwrap();
        let tracer = Some(Tracer::new(sampler, Some(Duration::from_secs(60)), Arc::clone(&queue)));
        Self { tracer, after: Box::new(move || uncounted(|| queue.abandon())), ..Self::default() }
    }
}

/// A call over gRPC.
fn calls(
    method: &str,
    workers: usize,
    arguments: Arguments,
    watch: Watch,
    is_right: fn(Bytes) -> bool,
) -> Box<dyn FnMut()> {
    let uri = format!("http://127.0.0.1:8000/openskill.v1.SkillService/{method}");
    let request = InvokeRequest {
        skill_id: SKILL.to_owned(),
        arguments: Some(arguments),
        session_id: "session-1".to_owned(),
        ..InvokeRequest::default()
    };
    let request = move || {
        let head = Request::post(&uri).version(http::Version::HTTP_2).header("te", "trailers");
        let head = head.header("content-type", "application/grpc").header("grpc-timeout", "10S");
        head.body(Body::from(in_memory::frame(&request))).unwrap()
    };
    requests(workers, watch, None, request, is_right)
}

/// A call over REST.
pub(super) fn rest() -> Box<dyn FnMut()> {
    let body = format!(r#"{{"input":{VALID}}}"#);
    requests(1, Watch::default(), None, post("/skills/browse:invoke", body), |answer| {
        serde_json::from_slice::<Value>(&answer).unwrap()["success"] == true
    })
}

/// A call over MCP, in a session.
pub(super) fn mcp() -> Box<dyn FnMut()> {
    let params = format!(r#"{{"name":"{SKILL}","arguments":{VALID}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
    let about = r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#;
    let initialize = format!(r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{about}}}"#);
    let first = Some(post("/mcp", initialize)());
    requests(1, Watch::default(), first, post("/mcp", body), |answer| {
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        answer["result"]["content"][0]["type"] == "text" && answer["result"]["isError"] != true
    })
}

/// A request of a client that speaks HTTP/1.1 and takes both kinds of answers.
fn post(path: &str, body: String) -> impl Fn() -> Request<Body> + use<> {
    let uri = format!("http://127.0.0.1:8000{path}");
    move || {
        let head = Request::post(&uri).header("host", "127.0.0.1:8000").header("content-type", "application/json");
        let head = head.header("accept", "application/json, text/event-stream").header("content-length", body.len());
        head.body(Body::from(body.clone())).unwrap()
    }
}

/// `first`: what begins the session that the requests are part of.
fn requests(
    workers: usize,
    watch: Watch,
    first: Option<Request<Body>>,
    request: impl Fn() -> Request<Body> + 'static,
    is_right: fn(Bytes) -> bool,
) -> Box<dyn FnMut()> {
    let Watch { recorder, tracer, mut after } = watch;
    // One thread, and nothing of the system but its clock.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let service = runtime.block_on(async {
        let shard = Shard { gateway: in_memory::gateway(workers, recorder, tracer).await, number: 0 };
        stack(
            &shard.gateway,
            Faces::public(&shard, &Health::new(), None, true, true).unwrap(),
            true,
            &shard.gateway.limits,
        )
    });
    let begun = first.map(|it| runtime.block_on(service.clone().oneshot(it)).unwrap());
    let session = begun.map(|it| it.headers()[SESSION].clone());
    Box::new(move || {
        let request = uncounted(|| {
            let mut request = request();
            request.headers_mut().extend(session.clone().map(|it| (SESSION, it)));
            request
        });
        let answered = async {
            let response = service.clone().oneshot(request).await.unwrap();
            response.into_body().collect().await.unwrap().to_bytes()
        };
        let answer = runtime.block_on(answered);
        after();
        assert!(uncounted(|| is_right(answer)));
    })
}

/// The messages of a gRPC body.
fn messages<M: Message + Default>(mut body: Bytes) -> Vec<M> {
    let mut messages = Vec::new();
    while body.has_remaining() {
        let _compressed = body.get_u8();
        let length = body.get_u32() as usize;
        messages.push(M::decode(body.split_to(length)).unwrap());
    }
    messages
}
