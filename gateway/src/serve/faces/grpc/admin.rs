//! `AdminService`: lists and drains workers, lists and resets circuits, drains the gateway, and divides calls among the
//! versions of a skill.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Instant;

use openskill_proto::v1::admin_service_server::AdminService;
use openskill_proto::v1::{
    CircuitState, DrainRequest, DrainResponse, ListCircuitsRequest, ListCircuitsResponse, ListWorkersRequest,
    ListWorkersResponse, ResetCircuitsRequest, ResetCircuitsResponse, SetTrafficRequest, SetTrafficResponse,
    TrafficShare,
};
use tonic::{Request, Response, Status};

use super::status;
use crate::catalog::entry::Entry;
use crate::catalog::traffic::{RuleFault, VersionShare, check, roll_back};
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

    async fn set_traffic(&self, request: Request<SetTrafficRequest>) -> Result<Response<SetTrafficResponse>, Status> {
        let SetTrafficRequest { skill_id, shares, rollback } = request.into_inner();
        let gateway = Arc::clone(&self.shard.gateway);
        let listed = gateway.catalog.get(&skill_id);
        let shares = match (&listed, rollback) {
            // The rule of a skill that is gone can still be removed.
            (None, false) if shares.is_empty() && gateway.catalog.traffic.current().contains_key(&skill_id) => {
                Vec::new()
            }
            (None, _) => return Err(status::not_found()),
            (Some(_), true) if !shares.is_empty() => {
                return Err(Status::invalid_argument("send shares or rollback, not both"));
            }
            (Some(listed), true) => roll_back(listed).ok_or_else(|| {
                let newest = &listed.skill.version;
                Status::failed_precondition(format!("no worker can run a version that is older than {newest}"))
            })?,
            (Some(listed), false) => new_rule(listed, shares)?,
        };
        let changed = tokio::task::spawn_blocking(move || {
            let written = gateway.catalog.traffic.set(&skill_id, shares);
            written.map(|()| {
                tracing::warn!(skill_id, "an operator changed the traffic rule of a skill");
                gateway.catalog.rebuild(&gateway.fleet);
                let versions = gateway.catalog.get(&skill_id).map(|it| it.skill.versions.clone());
                SetTrafficResponse {
                    versions: versions.unwrap_or_default(),
                    stored: gateway.catalog.traffic.are_stored(),
                }
            })
        });
        match changed.await {
            Ok(Ok(response)) => Ok(Response::new(response)),
            Ok(Err(error)) if error.kind() == ErrorKind::QuotaExceeded => {
                Err(Status::resource_exhausted(error.to_string()))
            }
            Ok(Err(error)) => Err(Status::internal(format!("the traffic rules could not be stored: {error}"))),
            Err(error) => Err(Status::internal(error.to_string())),
        }
    }
}

/// Checks the shares of a request. Returns them as a rule.
fn new_rule(listed: &Arc<Entry>, shares: Vec<TrafficShare>) -> Result<Vec<VersionShare>, Status> {
    let rule: Vec<_> = shares.into_iter().map(|it| VersionShare { version: it.version, percent: it.percent }).collect();
    if rule.is_empty() {
        return Ok(rule);
    }
    check(&rule, listed).map(|()| rule).map_err(|fault| match fault {
        RuleFault::Malformed(reason) => Status::invalid_argument(reason),
        RuleFault::NotServed(version) => {
            let served: Vec<_> = listed.each_version().map(|it| it.skill.version.as_str()).collect();
            Status::not_found(format!("no worker serves version '{version}': the skill has {}", served.join(", ")))
        }
    })
}
