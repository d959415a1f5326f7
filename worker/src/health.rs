//! `grpc.health.v1`. Gateways check it often, because a worker that hangs does not answer. Only `Check` is
//! implemented, because a `Watch` would keep a connection open during shutdown.

use std::pin::Pin;
use std::sync::Arc;

use futures_util::Stream;
use openskill_proto::v1::worker_service_server::SERVICE_NAME;
use tonic::{Request, Response, Status};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_server::{Health, HealthServer};
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::worker::Worker;

/// Creates the health service of a worker.
pub(crate) fn service(worker: Arc<Worker>) -> HealthServer<impl Health> {
    HealthServer::new(OfWorker(worker))
}

struct OfWorker(Arc<Worker>);

#[tonic::async_trait]
impl Health for OfWorker {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

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
