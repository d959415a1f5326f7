//! A gateway whose workers answer from memory, and the call that it gets. The work of the workers is not counted, that of the connections only on the
//! gateway's side.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{BufMut as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use openskill_proto::v1::execute_event::Event;
use openskill_proto::v1::{ExecuteEvent, ExecuteResult, Progress, Skill, SkillStatus, WorkerState};
use openskill_telemetry::trace::Tracer;
use prost::Message;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::cases::uncounted;
use crate::Config;
use crate::config::{CircuitRules, OperationsConfig};
use crate::gateway::Gateway;
use crate::observe::recorder::Recorder;
use crate::workers::source::Endpoint;
use crate::workers::worker::Worker;

/// The skill of the workers.
pub(super) const SKILL: &str = "browse";

/// Five fields, as tools have them.
pub(super) fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {
            "task": {"type": "string", "minLength": 1},
            "max_steps": {"type": "integer", "minimum": 1, "maximum": 1000},
            "use_vision": {"type": "boolean"},
            "mode": {"enum": ["fast", "careful", "thorough"]},
            "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 20},
        },
        "required": ["task"],
        "additionalProperties": false,
    })
}

/// A call of 200 bytes that fits it.
pub(super) const VALID: &str = r#"{"task": "Find the opening hours of the public library in Ghent and write them into a sheet now", "max_steps": 25, "use_vision": true, "mode": "careful", "tags": ["library", "opening hours", "ghent"]}"#;

const DATA: &[u8] = br#"{"steps": 12, "found": [{"day": "monday", "from": "10:00", "to": "19:00"}, {"day": "friday", "from": "13:00", "to": "19:00"}], "complete": true, "note": "closed on the other days"}"#;

/// A gateway with default settings, for calls of its first shard. Calls are recorded and traced by these, if there are any.
pub(super) async fn gateway(workers: usize, recorder: Option<Recorder>, tracer: Option<Tracer>) -> Arc<Gateway> {
    let config = Config {
        workers: Vec::new(),
        refresh_interval: Duration::from_secs(1),
        default_timeout: Duration::from_secs(15),
        max_in_flight: 4096,
        max_in_flight_of_skill: 2048,
        adaptive_limit: true,
        circuits: CircuitRules::default(),
        idempotency_lifetime: Duration::from_secs(300),
        max_connections: 1024,
        max_connections_of_peer: 256,
        sites: None,
        tls: None,
        mesh: None,
        mcp_secret: None,
        traffic_file: None,
        mcp_task_after: Duration::from_secs(5),
        operations: OperationsConfig {
            webhooks: None,
            store: None,
            is_default: true,
            max_waiting: 100_000,
            max_running: 64,
            keep: Duration::from_secs(604_800),
            keep_tasks: Duration::from_secs(3600),
            keep_bytes: 1 << 30,
            blobs: None,
        },
        mcp_views: None,
        mcp_resumable: Duration::ZERO,
        mcp_result_bytes: usize::MAX,
        public_url: None,
        identity: None,
        lame_duck: Duration::ZERO,
        measured_skills: 1000,
        recorder: None,
        agent: None,
        drain_timeout: Duration::from_secs(10),
        tracer,
    };
    let gateway = Gateway::with_recorder(recorder, config, CancellationToken::new()).expect("no file is opened");
    let skill = Skill {
        id: SKILL.to_owned(),
        version: "0.1.0".to_owned(),
        runner: "cli:python".to_owned(),
        input_schema_json: schema().to_string(),
        status: SkillStatus::Available.into(),
        ..Skill::default()
    };
    gateway.catalog.compile(std::slice::from_ref(&skill));
    let mut all = BTreeMap::new();
    for number in 0..workers {
        let id = format!("worker-{number}");
        let worker = Arc::new(Worker::new(Endpoint::Tcp(id.clone()), 1, None));
        worker.update(WorkerState {
            worker_id: id.clone(),
            instance_id: id.clone(),
            capacity: 16,
            skills: vec![skill.clone()],
            ..WorkerState::default()
        });
        let (near, far) = tokio::io::duplex(64 * 1024);
        let server = hyper::server::conn::http2::Builder::new(UncountedExecutor)
            .serve_connection(TokioIo::new(far), service_fn(work));
        tokio::spawn(Uncounted(Box::pin(server)));
        worker.link(0).use_stream(near).await.unwrap();
        all.insert(Endpoint::Tcp(id), worker);
    }
    gateway.fleet.replace(all);
    gateway.catalog.rebuild(&gateway.fleet);
    gateway
}

/// The worker: a result, after an event if a stream is wanted.
async fn work(
    request: Request<Incoming>,
) -> Result<Response<impl http_body::Body<Data = Bytes, Error = Infallible>>, Infallible> {
    let streams = request.uri().path().ends_with("ExecuteStream");
    let _ = request.into_body().collect().await;
    let answer = ExecuteResult {
        success: true,
        data_json: DATA.to_vec().into(),
        text: "found the opening hours of two days".to_owned(),
        version: "0.1.0".to_owned(),
        runner: "cli:python".to_owned(),
        worker_id: "worker-1".to_owned(),
        worker_queued_us: Some(0),
        ..ExecuteResult::default()
    };
    let frames = if streams {
        let progress = Progress { message: "half way".to_owned(), ..Progress::default() };
        let events = [Event::Progress(progress), Event::Result(answer)];
        events.map(|event| frame(&ExecuteEvent { event: Some(event) })).concat().into()
    } else {
        frame(&answer)
    };
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), HeaderValue::from_static("0"))]);
    let body = Full::new(frames).with_trailers(std::future::ready(Some(Ok(trailers))));
    Ok(Response::builder().header("content-type", "application/grpc").body(body).unwrap())
}

/// A message as it stands in a gRPC body.
pub(super) fn frame(message: &impl Message) -> Bytes {
    let mut body = BytesMut::new();
    body.put_u8(0);
    body.put_u32(message.encoded_len() as u32);
    message.encode(&mut body).unwrap();
    body.freeze()
}

/// Spawns the tasks of a worker, without counting their instructions.
#[derive(Clone, Copy)]
struct UncountedExecutor;

impl<F> hyper::rt::Executor<F> for UncountedExecutor
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(Uncounted(Box::pin(future)));
    }
}

/// A future of a worker.
struct Uncounted<F>(Pin<Box<F>>);

impl<F: Future> Future for Uncounted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        uncounted(|| self.0.as_mut().poll(context))
    }
}
