//! `AdminService`.

use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::admin_service_server::AdminService;
use openskill_proto::v1::{
    CircuitState, DrainRequest, DrainResponse, ListCircuitsRequest, ListCircuitsResponse, ListWorkersRequest,
    ListWorkersResponse, ResetCircuitsRequest, ResetCircuitsResponse,
};
use tonic::{Request, Response, Status};

use crate::gateway::Gateway;

/// How many circuits are listed if nobody says how many.
const DEFAULT_LIMIT: usize = 1000;

/// The service.
pub(crate) struct Admin {
    pub(crate) gateway: Arc<Gateway>,
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn list_workers(&self, _: Request<ListWorkersRequest>) -> Result<Response<ListWorkersResponse>, Status> {
        let workers = self.gateway.workers.all().iter().map(|worker| worker.info()).collect();
        Ok(Response::new(ListWorkersResponse { workers }))
    }

    async fn list_circuits(
        &self,
        request: Request<ListCircuitsRequest>,
    ) -> Result<Response<ListCircuitsResponse>, Status> {
        let ListCircuitsRequest { include_closed, skill_id, session_id, limit } = request.into_inner();
        let mut circuits = self.gateway.circuits.list(&skill_id, &session_id, Instant::now());
        circuits.retain(|it| include_closed || it.state() != CircuitState::Closed);
        let limit = if limit == 0 { DEFAULT_LIMIT } else { limit as usize };
        let left_out = circuits.len().saturating_sub(limit) as u32;
        circuits.truncate(limit);
        Ok(Response::new(ListCircuitsResponse { circuits, left_out }))
    }

    async fn reset_circuits(
        &self,
        request: Request<ResetCircuitsRequest>,
    ) -> Result<Response<ResetCircuitsResponse>, Status> {
        let ResetCircuitsRequest { skill_id, session_id } = request.into_inner();
        let reset = self.gateway.circuits.reset(&skill_id, &session_id, &self.gateway.metrics) as u32;
        Ok(Response::new(ResetCircuitsResponse { reset }))
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Result<Response<DrainResponse>, Status> {
        let DrainRequest { worker_id, resume } = request.into_inner();
        if worker_id.is_empty() {
            self.gateway.hold(!resume);
            tracing::warn!(resume, "an operator drains the gateway, or takes it back in");
            return Ok(Response::new(DrainResponse { in_flight: self.gateway.in_flight() as u32 }));
        }
        let all = self.gateway.workers.all();
        let Some(worker) = all.into_iter().find(|worker| worker.id() == worker_id) else {
            return Err(Status::not_found("no worker of this id is known: ListWorkers lists them"));
        };
        worker.hold(!resume);
        tracing::warn!(worker_id, resume, "an operator drains a worker, or takes it back in");
        self.gateway.catalog.rebuild(&self.gateway.workers);
        Ok(Response::new(DrainResponse { in_flight: worker.in_flight() }))
    }
}
