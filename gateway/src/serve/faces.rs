//! The faces of the gateway: gRPC, REST and MCP on one port. Only the faces deal with statuses, routes and JSON
//! over HTTP.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::pin::Pin;
use std::task::{Context, Poll};

use axum::BoxError;
use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse as _;
use axum::routing::future::RouteFuture;
use bytes::Bytes;
use futures_util::TryFutureExt as _;
use futures_util::future::{Either, MapOk};
use http::{Extensions, HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use openskill_agent::faces::{self as agent, Served};
use openskill_agent::hosted::Hosted;
use openskill_agent::skills::UserIdentity;
use openskill_proto::limits::MAX_REQUEST_BYTES;
use openskill_proto::v1::admin_service_server::AdminServiceServer;
use openskill_proto::v1::skill_service_server::{SERVICE_NAME, SkillServiceServer};
use openskill_proto::v1::trace_service_server::TraceServiceServer;
use openskill_proto::v1::{ErrorCode, SkillError};
use tonic::codegen::BoxFuture;
use tonic::service::Routes;
use tower::Service;

pub(crate) mod grpc;
pub(crate) mod identity;
pub(crate) mod mcp;
pub(crate) mod reads;
pub(crate) mod rest;
mod user_action;

use grpc::admin::Admin;
use grpc::health::Health;
use grpc::inbound::{GrpcBody, grpc_body};
use grpc::skills::GrpcSkills;
use grpc::{protocol, reflection};

use super::bodies::inbound::Inbound;
use super::bodies::outbound::ResponseBody;
use super::layers::origin::Foreign;
use super::layers::request_context;
use super::layers::screen::RejectReason;
use super::operations;
use super::traces::Traces;
use crate::call::result::MAX_RESPONSE_BYTES;
use crate::gateway::Shard;

/// The services of one listener of one shard. Cheap to clone.
#[derive(Clone)]
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
        let grpc = with_agent(grpc, agent);
        let services = reflection::public(with_admin, agent.is_some());
        let grpc = reflection::add_to(health.add_to(grpc, &services), &services)?;
        let agent = agent.cloned().map(operations::agent);
        let traces = with_admin.then(|| operations::traces(traces));
        let own = operations::skills(shard.clone()).merge(operations::gateway_probes(shard.clone()));
        let routes = [Some(own), agent, traces].into_iter().flatten().fold(protocol::only_grpc(grpc), Router::merge);
        let routes = rest::with_fallbacks(routes);
        Ok(Self { skills: Some(skills), routes, limited: limited_reflection(shard, &services)? })
    }

    /// Builds the services for operators, on a separate listener.
    ///
    /// # Errors
    /// The compiled descriptors can't be read.
    pub(crate) fn admin(shard: &Shard, health: &Health) -> std::io::Result<Self> {
        let traces = Traces { shard: shard.clone(), for_operators: true, is_loopback: false };
        let services = reflection::admin();
        let grpc = reflection::add_to(health.add_to(admin(&traces), &services), &services)?;
        let routes = protocol::only_grpc(grpc).merge(operations::traces(traces));
        let routes = rest::with_fallbacks(routes.merge(operations::gateway_probes(shard.clone())));
        Ok(Self { skills: None, routes, limited: limited_reflection(shard, &services)? })
    }

    /// Builds the services of an agent that calls the skills of a remote gateway. `shard` belongs to a gateway
    /// without workers, which provides limits.
    ///
    /// # Errors
    /// The compiled descriptors can't be read.
    pub(crate) fn agent(shard: &Shard, health: &Health, agent: &Served) -> std::io::Result<Self> {
        let services = reflection::agent();
        let grpc = health.add_to(with_agent(Routes::default(), Some(agent)), &services);
        let grpc = reflection::add_to(grpc, &services)?;
        let routes = protocol::only_grpc(grpc).merge(operations::agent(agent.clone()));
        let routes = rest::with_fallbacks(routes.merge(operations::agent_probes(shard.clone())));
        Ok(Self { skills: None, routes, limited: None })
    }
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

fn admin(traces: &Traces) -> Routes {
    let admin = AdminServiceServer::new(Admin { shard: traces.shard.clone() });
    let traces = TraceServiceServer::new(traces.clone());
    Routes::default()
        .add_service(admin.max_decoding_message_size(MAX_REQUEST_BYTES))
        .add_service(traces.max_decoding_message_size(MAX_REQUEST_BYTES))
}

type IntoResponseBody<B> = fn(Response<B>) -> Response<ResponseBody>;
type ReadyResponse = Ready<Result<Response<ResponseBody>, Infallible>>;
type GrpcFuture = MapOk<BoxFuture<Response<tonic::body::Body>, Infallible>, IntoResponseBody<tonic::body::Body>>;
type RestFuture = MapOk<Pin<Box<RouteFuture<Infallible>>>, IntoResponseBody<Body>>;

impl<B> Service<Request<Inbound<B>>> for Faces
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = Either<Either<ReadyResponse, GrpcFuture>, RestFuture>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Inbound<B>>) -> Self::Future {
        match &mut self.skills {
            Some(skills) if is_for_skills(request.uri().path()) => {
                if let Some(refusal) = protocol::refusal(&request) {
                    return Either::Left(Either::Left(ready(Ok(refusal.map(ResponseBody::Rest)))));
                }
                let request: Request<GrpcBody<B>> = request.map(grpc_body);
                let into_body: IntoResponseBody<_> = |response| response.map(ResponseBody::Grpc);
                Either::Left(Either::Right(skills.call(request).map_ok(into_body)))
            }
            _ => {
                // The router also serves gRPC: statuses must survive in the errors of its bodies.
                let request = request.map(|body| Body::new(grpc_body(body)));
                let into_body: IntoResponseBody<_> = rest::answer;
                let routes = match &mut self.limited {
                    Some(limited) if reflection::is_for(request.uri().path()) && !is_admin(&request) => limited,
                    _ => &mut self.routes,
                };
                // Boxed, so that the future of a call does not reserve space for it.
                Either::Right(Box::pin(routes.call(request)).map_ok(into_body))
            }
        }
    }
}

fn is_admin<B>(request: &Request<B>) -> bool {
    request_context(request.extensions()).principal.is_admin()
}

fn is_for_skills(path: &str) -> bool {
    path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME)).is_some_and(|rest| rest.starts_with('/'))
}

/// Responds to a request that is refused before routing.
pub(crate) fn refuse(reason: RejectReason, headers: &HeaderMap, extensions: &Extensions) -> Response<ResponseBody> {
    let (status, code, message) = match reason {
        RejectReason::Malformed(fault) => (StatusCode::BAD_REQUEST, ErrorCode::InvalidArgument, fault),
        RejectReason::Foreign(Foreign::Site) => (StatusCode::FORBIDDEN, ErrorCode::PermissionDenied, OTHER_SITE),
        RejectReason::Foreign(Foreign::Host) => (StatusCode::FORBIDDEN, ErrorCode::PermissionDenied, OTHER_HOST),
    };
    if code == ErrorCode::PermissionDenied && protocol::has_grpc_type(headers) {
        let status = grpc::status::from_error(&SkillError::new(code, message));
        return status.into_http::<tonic::body::Body>().map(ResponseBody::Grpc);
    }
    let trace_id = request_context(extensions).trace.id;
    let mut refusal = rest::answer(rest::body::refuse(status, code, message, &trace_id).into_response());
    if let RejectReason::Malformed(_) = reason {
        // Close the connection: the start of its next request is unknown.
        refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    refusal
}

const OTHER_SITE: &str =
    "a web page of another site may not call this gateway: to allow it, list its origin in OPENSKILL_ALLOWED_ORIGINS";

const OTHER_HOST: &str = "the request names a host that may belong to another site: if this gateway is served under that \
                          name, list it in OPENSKILL_ALLOWED_HOSTS";

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
