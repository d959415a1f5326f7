//! `AdminService`.

use std::sync::Arc;

use openskill_proto::v1::admin_service_server::AdminService;
use openskill_proto::v1::{
    DrainRequest, DrainResponse, ListCircuitsRequest, ListCircuitsResponse, ListWorkersRequest, ListWorkersResponse,
    ResetCircuitsRequest, ResetCircuitsResponse,
};
use tonic::{Request, Response, Status};

use super::status;
use crate::gateway::Gateway;

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

    async fn list_circuits(&self, _: Request<ListCircuitsRequest>) -> Result<Response<ListCircuitsResponse>, Status> {
        Err(status::not_in_this_version("circuits"))
    }

    async fn reset_circuits(
        &self,
        _: Request<ResetCircuitsRequest>,
    ) -> Result<Response<ResetCircuitsResponse>, Status> {
        Err(status::not_in_this_version("circuits"))
    }

    async fn drain(&self, request: Request<DrainRequest>) -> Result<Response<DrainResponse>, Status> {
        let DrainRequest { worker_id, resume } = request.into_inner();
        if worker_id.is_empty() {
            return Err(Status::unimplemented(
                "this version drains workers by their id; the gateway drains on SIGTERM",
            ));
        }
        let all = self.gateway.workers.all();
        let Some(worker) = all.into_iter().find(|worker| worker.id() == worker_id) else {
            return Err(Status::not_found("no worker of this id is up: ListWorkers lists them"));
        };
        worker.hold(!resume);
        self.gateway.catalog.rebuild(&self.gateway.workers);
        Ok(Response::new(DrainResponse { in_flight: worker.in_flight() }))
    }
}
