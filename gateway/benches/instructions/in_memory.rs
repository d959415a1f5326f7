//! A gateway with one worker that answers from memory. What the worker itself does is not counted.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use openskill_proto::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use openskill_proto::v1::{
    DeliverInputRequest, DeliverInputResponse, DescribeRequest, ExecuteEvent, ExecuteRequest, ExecuteResult,
    FetchArtifactRequest, Progress, ReadArtifactResponse, Skill, SkillStatus, WorkerState, execute_event::Event,
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::cases::aside;
use super::sample::schema;
use crate::Config;
use crate::config::CircuitRules;
use crate::gateway::Gateway;
use crate::workers::Worker;
use crate::workers::source::Endpoint;

/// The skill that it has.
pub(super) const SKILL: &str = "browse";

/// What the skill answers.
pub(super) fn answer() -> ExecuteResult {
    let data = br#"{"steps": 12, "found": [{"day": "monday", "from": "10:00", "to": "19:00"}, {"day": "friday", "from": "13:00", "to": "19:00"}], "complete": true, "note": "closed on the other days"}"#;
    ExecuteResult {
        success: true,
        data_json: data.to_vec().into(),
        text: "found the opening hours of two days".to_owned(),
        version: "0.1.0".to_owned(),
        runner: "cli:python".to_owned(),
        worker_id: "worker-1".to_owned(),
        worker_queued_us: Some(0),
        ..ExecuteResult::default()
    }
}

/// A gateway as the settings' defaults make it, without workers.
pub(super) fn gateway() -> Arc<Gateway> {
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
        drain_timeout: Duration::from_secs(10),
    };
    Gateway::new(config, CancellationToken::new())
}

/// Gives the gateway its worker, for calls of its first shard.
pub(super) async fn join(gateway: &Gateway) {
    let endpoint = Endpoint::Tcp("worker-1".to_owned());
    let worker = Arc::new(Worker::new(endpoint.clone(), 1));
    let skill = Skill {
        id: SKILL.to_owned(),
        version: "0.1.0".to_owned(),
        runner: "cli:python".to_owned(),
        input_schema_json: schema().to_string(),
        status: SkillStatus::Available.into(),
        ..Skill::default()
    };
    gateway.catalog.learn(std::slice::from_ref(&skill));
    worker.learn(WorkerState {
        worker_id: "worker-1".to_owned(),
        instance_id: "instance-1".to_owned(),
        capacity: 16,
        skills: vec![skill],
        ..WorkerState::default()
    });
    gateway.workers.replace(BTreeMap::from([(endpoint, Arc::clone(&worker))]));
    gateway.catalog.rebuild(&gateway.workers);
    let (near, far) = tokio::io::duplex(64 * 1024);
    let server = auto::Builder::new(Aside).http2_only();
    let service = TowerToHyperService::new(WorkerServiceServer::new(Memory));
    hyper::rt::Executor::execute(&Aside, async move {
        let _ = server.serve_connection(TokioIo::new(far), service).await;
    });
    worker.link(0).go_over(near).await.unwrap();
}

/// Spawns what is not counted.
#[derive(Clone, Copy)]
struct Aside;

impl<F> hyper::rt::Executor<F> for Aside
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        tokio::spawn(Uncounted(Box::pin(future)));
    }
}

/// A future of the worker's.
struct Uncounted<F>(Pin<Box<F>>);

impl<F: Future> Future for Uncounted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        aside(|| self.0.as_mut().poll(context))
    }
}

/// The worker.
struct Memory;

#[tonic::async_trait]
impl WorkerService for Memory {
    type DescribeStream = BoxStream<'static, Result<WorkerState, Status>>;
    type ExecuteStreamStream = BoxStream<'static, Result<ExecuteEvent, Status>>;

    async fn describe(&self, _: Request<DescribeRequest>) -> Result<Response<Self::DescribeStream>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn execute(&self, _: Request<ExecuteRequest>) -> Result<Response<ExecuteResult>, Status> {
        Ok(Response::new(answer()))
    }

    async fn execute_stream(&self, _: Request<ExecuteRequest>) -> Result<Response<Self::ExecuteStreamStream>, Status> {
        let progress = Progress { message: "half way".to_owned(), ..Progress::default() };
        let events = [Event::Progress(progress), Event::Result(answer())];
        let events = events.map(|event| Ok(ExecuteEvent { event: Some(event) }));
        Ok(Response::new(stream::iter(events).boxed()))
    }

    async fn deliver_input(&self, _: Request<DeliverInputRequest>) -> Result<Response<DeliverInputResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn fetch_artifact(&self, _: Request<FetchArtifactRequest>) -> Result<Response<ReadArtifactResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}
