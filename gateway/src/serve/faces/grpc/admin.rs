//! `AdminService`: lists and drains workers, lists and resets circuits, and drains the gateway.

use std::time::Instant;

use openskill_proto::v1::admin_service_server::AdminService;
use openskill_proto::v1::{
    CircuitState, DrainRequest, DrainResponse, ListCircuitsRequest, ListCircuitsResponse, ListWorkersRequest,
    ListWorkersResponse, ResetCircuitsRequest, ResetCircuitsResponse,
};
use tonic::{Request, Response, Status};

use crate::gateway::Shard;

/// The default number of listed circuits.
const DEFAULT_LIMIT: usize = 1000;

pub(crate) struct Admin {
    pub(crate) shard: Shard,
}

#[tonic::async_trait]
impl AdminService for Admin {
    async fn list_workers(&self, _: Request<ListWorkersRequest>) -> Result<Response<ListWorkersResponse>, Status> {
        let workers = self.shard.gateway.fleet.all().iter().map(|worker| worker.info()).collect();
        Ok(Response::new(ListWorkersResponse { workers }))
    }

    async fn list_circuits(
        &self,
        request: Request<ListCircuitsRequest>,
    ) -> Result<Response<ListCircuitsResponse>, Status> {
        let ListCircuitsRequest { include_closed, skill_id, session_id, limit } = request.into_inner();
        let listed = self.shard.gateway.circuits.list(&skill_id, &session_id, Instant::now());
        let mut circuits: Vec<_> = listed.into_iter().map(|it| it.circuit).collect();
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
        let reset = self.shard.gateway.circuits.reset(&skill_id, &session_id) as u32;
        Ok(Response::new(ResetCircuitsResponse { reset }))
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Result<Response<DrainResponse>, Status> {
        let DrainRequest { worker_id, resume } = request.into_inner();
        let gateway = &self.shard.gateway;
        if worker_id.is_empty() {
            if gateway.drain(!resume) {
                tracing::warn!(resume, "an operator drained or resumed the gateway");
            }
            return Ok(Response::new(DrainResponse { in_flight: gateway.calls.find(|_| true).len() as u32 }));
        }
        let all = gateway.fleet.all();
        let Some(worker) = all.into_iter().find(|worker| worker.id() == worker_id) else {
            return Err(Status::not_found("there is no worker with this id: ListWorkers lists them"));
        };
        if worker.drain(!resume) {
            tracing::warn!(worker_id, resume, "an operator drained or resumed a worker");
            gateway.catalog.rebuild(&gateway.fleet);
        }
        Ok(Response::new(DrainResponse { in_flight: worker.in_flight() }))
    }
}
