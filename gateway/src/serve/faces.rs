//! The faces of the gateway: gRPC, REST and MCP on one port. Only the faces deal with statuses, routes and JSON
//! over HTTP.

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use openskill_agent::faces::{self as agent, Served};
use openskill_agent::hosted::Hosted;
use openskill_agent::skills::UserIdentity;
use openskill_proto::limits::MAX_REQUEST_BYTES;
use openskill_proto::longrunning::operations_server::OperationsServer;
use openskill_proto::v1::admin_service_server::AdminServiceServer;
use openskill_proto::v1::operation_service_server::OperationServiceServer;
use openskill_proto::v1::skill_service_server::{SERVICE_NAME, SkillServiceServer};
use openskill_proto::v1::trace_service_server::TraceServiceServer;
use tonic::service::Routes;
use tower::Service as _;

pub(crate) mod grpc;
pub(crate) mod mcp;
mod operation_message;
pub(crate) mod refusals;
pub(crate) mod rest;
mod user_action;

use grpc::admin::Admin;
use grpc::health::Health;
use grpc::operations::GrpcOperations;
use grpc::skills::GrpcSkills;
use grpc::status::grpc_body;
use grpc::{protocol, reflection};
pub(crate) use operation_message::operation_json;

use super::bodies::inbound::{Inbound, RequestBody};
use super::layers::request_context;
use super::operations;
use super::traces::Traces;
use crate::call::result::MAX_RESPONSE_BYTES;
use crate::gateway::Shard;

/// The services of one listener of one shard.
pub(crate) struct Faces {
    /// Receives calls directly, bypassing the router. None on the admin listener.
    skills: Option<SkillServiceServer<GrpcSkills>>,
    /// REST, and the other gRPC services.
    routes: Router,
    /// Reflection for callers that are not administrators, if the gateway requires keys.
    limited: Option<Router>,
}

impl Faces {
    /// Builds the services for callers. `with_admin`: no admin listener exists, so this one also serves
    /// `AdminService`, and, if the listener is a loopback one (`is_loopback`), traces. `agent`: the agent's
    /// services.
    ///
    /// # Errors
    /// The compiled descriptors can't be read.
    pub(crate) fn public(
        shard: &Shard,
        health: &Health,
        agent: Option<&Served>,
        with_admin: bool,
        is_loopback: bool,
    ) -> std::io::Result<Self> {
        let skills = SkillServiceServer::new(GrpcSkills { shard: shard.clone() })
            .max_decoding_message_size(MAX_REQUEST_BYTES)
            .max_encoding_message_size(MAX_RESPONSE_BYTES + 64 * 1024);
        let traces = Traces { shard: shard.clone(), for_operators: false, is_loopback };
        let grpc = if with_admin { admin(&traces) } else { Routes::default() };
        let grpc = with_operations(grpc, shard);
        let services = reflection::public(with_admin, agent.is_some());
        let own = operations::skills(shard.clone()).merge(operations::gateway_probes(shard.clone()));
        let others = [agent.cloned().map(operations::agent), with_admin.then(|| operations::traces(traces))];
        let rest_routes = others.into_iter().flatten().fold(own, Router::merge);
        let routes = routes(health, with_agent(grpc, agent), &services, rest_routes)?;
        Ok(Self { skills: Some(skills), routes, limited: limited_reflection(shard, &services)? })
    }

    /// Builds the services for operators, on a separate listener.
    ///
    /// # Errors
    /// The compiled descriptors can't be read.
    pub(crate) fn admin(shard: &Shard, health: &Health) -> std::io::Result<Self> {
        let traces = Traces { shard: shard.clone(), for_operators: true, is_loopback: false };
        let services = reflection::admin();
        let grpc = admin(&traces);
        let rest_routes = operations::traces(traces).merge(operations::gateway_probes(shard.clone()));
        let routes = routes(health, grpc, &services, rest_routes)?;
        Ok(Self { skills: None, routes, limited: limited_reflection(shard, &services)? })
    }

    /// Builds the services of an agent that calls the skills of a remote gateway. `shard` belongs to a gateway
    /// without workers, which provides limits.
    ///
    /// # Errors
    /// The compiled descriptors can't be read.
    pub(crate) fn agent(shard: &Shard, health: &Health, agent: &Served) -> std::io::Result<Self> {
        let rest_routes = operations::agent(agent.clone()).merge(operations::agent_probes(shard.clone()));
        let routes = routes(health, with_agent(Routes::default(), Some(agent)), &reflection::agent(), rest_routes)?;
        Ok(Self { skills: None, routes, limited: None })
    }

    /// Responds to a request.
    pub(crate) async fn serve<B: RequestBody>(&self, request: Request<Inbound<B>>) -> Response<Body> {
        match &self.skills {
            Some(skills) if is_for_skills(request.uri().path()) => {
                if let Some(refusal) = protocol::refusal(&request) {
                    return refusal;
                }
                let Ok(response) = skills.clone().call(request.map(grpc_body)).await;
                response.map(Body::new)
            }
            _ => {
                // The router also serves gRPC: statuses must survive in the errors of its bodies.
                let request = request.map(|body| Body::new(grpc_body(body)));
                let routes = match &self.limited {
                    Some(limited) if reflection::is_for(request.uri().path()) && !is_admin(&request) => limited,
                    _ => &self.routes,
                };
                // Boxed, so that the future of a call does not reserve space for it.
                let Ok(response) = Box::pin(routes.clone().call(request)).await;
                rest::answer(response)
            }
        }
    }
}

/// Builds all routes of a listener: gRPC, with the health and the reflection of `services`, and REST.
fn routes(health: &Health, grpc: Routes, services: &[&'static str], rest_routes: Router) -> std::io::Result<Router> {
    let grpc = reflection::add_to(health.add_to(grpc, services), services)?;
    Ok(rest::with_fallbacks(protocol::only_grpc(grpc).merge(rest_routes)))
}

/// Builds reflection of `services` for callers that are not administrators. None if the gateway requires no keys.
fn limited_reflection(shard: &Shard, services: &[&'static str]) -> std::io::Result<Option<Router>> {
    if shard.gateway.registry.is_none() {
        return Ok(None);
    }
    let services = reflection::without_administration(services);
    Ok(Some(protocol::only_grpc(reflection::add_to(Routes::default(), &services)?)))
}

/// Builds the service of an agent, for the principals that the layers identify.
pub(crate) fn serve_agent(agent: Hosted) -> Served {
    Served::new(agent, |extensions| {
        let principal = request_context(extensions).principal;
        UserIdentity { principal: principal.name().to_owned(), credential: principal.credential().to_owned() }
    })
}

fn with_agent(grpc: Routes, agent: Option<&Served>) -> Routes {
    agent.into_iter().fold(grpc, |grpc, agent| grpc.add_service(agent::grpc::service(agent.clone())))
}

fn with_operations(grpc: Routes, shard: &Shard) -> Routes {
    let operations = GrpcOperations { shard: shard.clone() };
    grpc.add_service(OperationServiceServer::new(operations.clone()).max_decoding_message_size(MAX_REQUEST_BYTES))
        .add_service(OperationsServer::new(operations).max_decoding_message_size(MAX_REQUEST_BYTES))
}

fn admin(traces: &Traces) -> Routes {
    let admin = AdminServiceServer::new(Admin { shard: traces.shard.clone() });
    let traces = TraceServiceServer::new(traces.clone());
    Routes::default()
        .add_service(admin.max_decoding_message_size(MAX_REQUEST_BYTES))
        .add_service(traces.max_decoding_message_size(MAX_REQUEST_BYTES))
}

fn is_admin<B>(request: &Request<B>) -> bool {
    request_context(request.extensions()).principal.is_admin()
}

fn is_for_skills(path: &str) -> bool {
    path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME)).is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_methods_of_the_skill_service_bypass_the_router() {
        assert!(is_for_skills("/openskill.v1.SkillService/Invoke"));
        for other in ["/openskill.v1.SkillService", "/openskill.v1.SkillServiceX/Invoke", "/skills", "/", ""] {
            assert!(!is_for_skills(other), "{other}");
        }
    }
}
