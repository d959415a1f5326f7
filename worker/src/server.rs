//! Serves `WorkerService` and `grpc.health.v1` over gRPC.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::stream::{self, BoxStream, StreamExt as _};
use openskill_proto::limits::{MAX_HEADER_BYTES, MAX_REQUEST_BYTES, MAX_STATE_BYTES};
use openskill_proto::metadata::{TRACEPARENT, TRACESTATE};
use openskill_proto::v1::worker_service_server::{SERVICE_NAME, WorkerService, WorkerServiceServer};
use openskill_proto::v1::{
    CancelRunRequest, CancelRunResponse, ConsultRequest, ConsultResult, DeliverInputRequest, DeliverInputResponse,
    DescribeRequest, ErrorCode, ExecuteEvent, ExecuteRequest, ExecuteResult, FetchArtifactRequest, OperationRun,
    ReadArtifactResponse, ResumeRunRequest, WorkerState, execute_event,
};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;
use tonic::transport::server::Router;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::execute::{TraceHeaders, execute, refuse};
use crate::kept_runs::KeptRunError;
use crate::questions::Rejection;
use crate::worker::Worker;

/// The maximum number of streams per connection. A gateway uses one connection per shard.
const MAX_STREAMS: u32 = 4096;

/// The number of events that are buffered for a slow gateway. Beyond it, the skill waits.
const EVENT_BUFFER: usize = 32;

/// Creates the gRPC services, with all limits set.
pub(crate) fn router(worker: Arc<Worker>) -> Router {
    let health = HealthServer::new(WorkerHealth(Arc::clone(&worker)));
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
        // A gateway forwards all its clients' resets over one connection.
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
    type ResumeRunStream = BoxStream<'static, Result<ExecuteEvent, Status>>;

    async fn describe(&self, _: Request<DescribeRequest>) -> Result<Response<Self::DescribeStream>, Status> {
        Ok(Response::new(states(Arc::clone(&self.worker)).boxed()))
    }

    async fn execute(&self, request: Request<ExecuteRequest>) -> Result<Response<ExecuteResult>, Status> {
        let trace = trace_headers(&request);
        execute(&self.worker, request.into_inner(), trace, None).await.map(Response::new)
    }

    async fn execute_stream(
        &self,
        request: Request<ExecuteRequest>,
    ) -> Result<Response<Self::ExecuteStreamStream>, Status> {
        let trace = trace_headers(&request);
        if let Some(operation) = &request.get_ref().operation {
            let operation = operation.clone();
            return keep(&self.worker, operation, request.into_inner(), trace).await.map(Response::new);
        }
        let (sender, receiver) = mpsc::channel(EVENT_BUFFER);
        let worker = Arc::clone(&self.worker);
        // Runs in a task, so that it makes progress and meets its deadline even if the stream is not read.
        let run = AbortOnDropHandle::new(tokio::spawn(async move {
            execute(&worker, request.into_inner(), trace, Some(sender)).await
        }));
        Ok(Response::new(events(run, receiver).boxed()))
    }

    async fn resume_run(&self, request: Request<ResumeRunRequest>) -> Result<Response<Self::ResumeRunStream>, Status> {
        let is_open = |id: &str| self.worker.questions.is_open(id);
        let resumed = self.worker.kept_runs.resume(request.get_ref(), is_open);
        let listener = resumed.ok_or_else(|| Status::not_found("this worker has no such run"))?;
        Ok(Response::new(listener.into_stream().boxed()))
    }

    async fn cancel_run(&self, request: Request<CancelRunRequest>) -> Result<Response<CancelRunResponse>, Status> {
        self.worker.kept_runs.cancel(request.get_ref());
        Ok(Response::new(CancelRunResponse {}))
    }

    async fn deliver_input(
        &self,
        request: Request<DeliverInputRequest>,
    ) -> Result<Response<DeliverInputResponse>, Status> {
        let DeliverInputRequest { response, principal } = request.into_inner();
        let delivered = self.worker.questions.deliver(response.unwrap_or_default(), &principal);
        delivered.map(|()| Response::new(DeliverInputResponse {})).map_err(|rejection| match rejection {
            Rejection::NotFound => {
                Status::not_found("no skill waits for this answer: the question or its call has ended")
            }
            Rejection::Invalid(reason) => Status::invalid_argument(reason),
        })
    }

    async fn consult(&self, request: Request<ConsultRequest>) -> Result<Response<ConsultResult>, Status> {
        let answer = self.worker.registry.consult(request.into_inner()).await.map_err(|error| match error.code() {
            ErrorCode::NotFound => Status::not_found(error.message),
            ErrorCode::InvalidArgument => Status::invalid_argument(error.message),
            ErrorCode::Unavailable | ErrorCode::Overloaded => Status::unavailable(error.message),
            _ => Status::internal(error.message),
        })?;
        Ok(Response::new(ConsultResult { result_json: answer.into() }))
    }

    async fn fetch_artifact(
        &self,
        request: Request<FetchArtifactRequest>,
    ) -> Result<Response<ReadArtifactResponse>, Status> {
        let FetchArtifactRequest { range, principal } = request.into_inner();
        let read = self.worker.artifacts.read(&range.unwrap_or_default(), &principal, Instant::now());
        read.map(Response::new)
            .ok_or_else(|| Status::not_found("this worker has no such artifact: it may have expired"))
    }
}

/// Answers health checks. Gateways check often, because a worker that hangs does not answer. Only `Check` is
/// implemented, because a `Watch` would keep a connection open during shutdown.
struct WorkerHealth(Arc<Worker>);

#[tonic::async_trait]
impl Health for WorkerHealth {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        if !["", SERVICE_NAME].contains(&request.get_ref().service.as_str()) {
            return Err(Status::not_found("this worker has no such service"));
        }
        let status = if self.0.is_draining() { ServingStatus::NotServing } else { ServingStatus::Serving };
        Ok(Response::new(HealthCheckResponse { status: status.into() }))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        Err(Status::unimplemented("use Check"))
    }
}

/// Streams the current state and each later one. The draining state is the last, because an open stream would keep
/// the connection open and delay the shutdown.
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

/// Starts the run of an operation, and streams its events. Dropping the stream does not end it.
async fn keep(
    worker: &Arc<Worker>,
    operation: OperationRun,
    request: ExecuteRequest,
    trace: TraceHeaders,
) -> Result<BoxStream<'static, Result<ExecuteEvent, Status>>, Status> {
    let (running, principal) = (Arc::clone(worker), request.principal.clone());
    let execute = |events| async move { execute(&running, request, trace, Some(events)).await };
    match worker.kept_runs.start(operation, &principal, execute).await {
        Ok(listener) => Ok(listener.into_stream().boxed()),
        Err(error) => {
            let message = error.to_string();
            Err(match error {
                KeptRunError::Superseded => refuse(worker, "superseded", Status::aborted(message)),
                KeptRunError::Full => refuse(worker, "full", Status::resource_exhausted(message)),
                KeptRunError::NotGone => refuse(worker, "unavailable", Status::unavailable(message)),
            })
        }
    }
}

type Run = AbortOnDropHandle<Result<ExecuteResult, Status>>;

/// Streams the run's events and then its result. Dropping the stream ends the run.
fn events(
    run: Run,
    receiver: mpsc::Receiver<execute_event::Event>,
) -> impl futures_util::Stream<Item = Result<ExecuteEvent, Status>> {
    let result = async move {
        let ended = run.await.unwrap_or_else(|_| Err(Status::internal("the run panicked")));
        ended.map(execute_event::Event::Result)
    };
    // The channel closes when the run ends, because the run owns the sender.
    let events = ReceiverStream::new(receiver).map(Ok).chain(stream::once(result));
    events.map(|event: Result<_, Status>| event.map(|event| ExecuteEvent { event: Some(event) }))
}

fn trace_headers<T>(request: &Request<T>) -> TraceHeaders {
    let header =
        |name| request.metadata().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    TraceHeaders { traceparent: header(TRACEPARENT), tracestate: header(TRACESTATE) }
}
