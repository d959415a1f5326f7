//! The worker's face: `WorkerService` over gRPC.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt as _};
use openskill_proto::limits::{MAX_HEADER_BYTES, MAX_REQUEST_BYTES, MAX_STATE_BYTES};
use openskill_proto::metadata::{TRACEPARENT, TRACESTATE};
use openskill_proto::v1::worker_service_server::{WorkerService, WorkerServiceServer};
use openskill_proto::v1::{
    DeliverInputRequest, DeliverInputResponse, DescribeRequest, ExecuteEvent, ExecuteRequest, ExecuteResult,
    FetchArtifactRequest, ReadArtifactResponse, WorkerState, execute_event,
};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::server::Router;
use tonic::{Request, Response, Status};

use crate::events::EventSink;
use crate::execute::{Place, execute};
use crate::worker::Worker;

/// Streams one connection may have open: a gateway uses one connection a shard.
const MAX_STREAMS: u32 = 4096;

/// How many events may wait for a slow gateway before the skill has to.
const EVENT_BUFFER: usize = 32;

/// The service with all its bounds.
pub(crate) fn router(worker: Arc<Worker>) -> Router {
    let health = crate::health::service(Arc::clone(&worker));
    let service = WorkerServiceServer::new(Service { worker })
        .max_decoding_message_size(MAX_REQUEST_BYTES + 64 * 1024)
        .max_encoding_message_size(MAX_STATE_BYTES);
    tonic::transport::Server::builder()
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(1 << 24)
        .http2_keepalive_interval(Some(Duration::from_secs(10)))
        .http2_keepalive_timeout(Some(Duration::from_secs(10)))
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        // A gateway passes on the resets of all its clients.
        .http2_max_pending_accept_reset_streams(Some(MAX_STREAMS as usize))
        .tcp_nodelay(true)
        .add_service(service)
        .add_service(health)
}

struct Service {
    worker: Arc<Worker>,
}

#[tonic::async_trait]
impl WorkerService for Service {
    type DescribeStream = BoxStream<'static, Result<WorkerState, Status>>;
    type ExecuteStreamStream = BoxStream<'static, Result<ExecuteEvent, Status>>;

    async fn describe(&self, _: Request<DescribeRequest>) -> Result<Response<Self::DescribeStream>, Status> {
        Ok(Response::new(states(Arc::clone(&self.worker)).boxed()))
    }

    async fn execute(&self, request: Request<ExecuteRequest>) -> Result<Response<ExecuteResult>, Status> {
        let place = place(&request);
        execute(&self.worker, request.into_inner(), place, EventSink::default()).await.map(Response::new)
    }

    async fn execute_stream(
        &self,
        request: Request<ExecuteRequest>,
    ) -> Result<Response<Self::ExecuteStreamStream>, Status> {
        let place = place(&request);
        let (sender, receiver) = mpsc::channel(EVENT_BUFFER);
        let worker = Arc::clone(&self.worker);
        // A task, so that the run goes on, and meets its deadline, while nobody reads the stream.
        let run = AbortOnDropHandle::new(tokio::spawn(async move {
            execute(&worker, request.into_inner(), place, EventSink::new(sender)).await
        }));
        Ok(Response::new(events(run, receiver).boxed()))
    }

    async fn deliver_input(&self, _: Request<DeliverInputRequest>) -> Result<Response<DeliverInputResponse>, Status> {
        Err(Status::not_found("no skill waits for this answer"))
    }

    async fn fetch_artifact(&self, _: Request<FetchArtifactRequest>) -> Result<Response<ReadArtifactResponse>, Status> {
        Err(Status::not_found("this worker holds no such artifact"))
    }
}

/// The state now, and again after each change. The one that says draining is the last: an open stream would keep the
/// connection, and so the shutdown.
fn states(worker: Arc<Worker>) -> impl futures_util::Stream<Item = Result<WorkerState, Status>> {
    let (mut changes, draining) = (worker.registry.changes(), worker.draining());
    changes.mark_changed();
    stream::unfold((worker, changes, draining, false), |(worker, mut changes, mut draining, last)| async move {
        if last {
            return None;
        }
        tokio::select! {
            changed = changes.changed() => changed.ok()?,
            drains = draining.changed() => drains.ok()?,
        }
        let state = worker.state();
        let last = state.draining;
        Some((Ok(state), (worker, changes, draining, last)))
    })
}

type Run = AbortOnDropHandle<Result<ExecuteResult, Status>>;

/// The run's events, then its result. Whoever drops the stream ends the run.
fn events(
    run: Run,
    receiver: mpsc::Receiver<execute_event::Event>,
) -> impl futures_util::Stream<Item = Result<ExecuteEvent, Status>> {
    stream::unfold(Some((run, receiver)), |state| async move {
        let (run, mut receiver) = state?;
        // The channel ends with the run, which holds its other side.
        if let Some(event) = receiver.recv().await {
            return Some((Ok(ExecuteEvent { event: Some(event) }), Some((run, receiver))));
        }
        let ended = run.await.unwrap_or_else(|_| Err(Status::internal("the run panicked")));
        let last = ended.map(|result| ExecuteEvent { event: Some(execute_event::Event::Result(result)) });
        Some((last, None))
    })
}

fn place<T>(request: &Request<T>) -> Place {
    let header =
        |name| request.metadata().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    Place { traceparent: header(TRACEPARENT), tracestate: header(TRACESTATE) }
}
