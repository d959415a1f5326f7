//! The faces of the gateway: gRPC, REST and MCP on one port. Only they know statuses, routes and JSON over HTTP.

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
use openskill_agent::skills::Owner;
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
mod mcp;
pub(crate) mod reads;
pub(crate) mod rest;
mod user_action;

use grpc::admin::Admin;
use grpc::health::Health;
use grpc::inbound::{GrpcBody, grpc_body};
use grpc::skills::Skills;
use grpc::{protocol, reflection};

use super::bodies::inbound::Inbound;
use super::bodies::outbound::Answer;
use super::layers::origin::Foreign;
use super::layers::request_context;
use super::layers::screen::Unwelcome;
use super::traces::Traces;
use crate::call::result::MAX_RESPONSE_BYTES;
use crate::gateway::Shard;

/// What one listener of one shard serves. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Faces {
    /// Calls go here directly, past the router. None on the admin listener.
    skills: Option<SkillServiceServer<Skills>>,
    /// REST, and the other gRPC services.
    routes: Router,
    /// Reflection for callers that are no administrators, if there are keys.
    limited: Option<Router>,
}

impl Faces {
    /// What callers use. `with_admin`: `AdminService` and traces are served here too, as they have no listener of their own;
    /// traces only if `is_loopback`, as is the listener. `agent`: what is served of it.
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
        let skills = SkillServiceServer::new(Skills { shard: shard.clone() })
            .max_decoding_message_size(MAX_REQUEST_BYTES)
            .max_encoding_message_size(MAX_RESPONSE_BYTES + 64 * 1024);
        let traces = Traces { shard: shard.clone(), for_operators: false, is_loopback };
        let grpc = if with_admin { admin(&traces) } else { Routes::default() };
        let grpc = with_agent(grpc, agent);
        let services = reflection::public(with_admin, agent.is_some());
        let grpc = reflection::add_to(health.add_to(grpc, &services), &services)?;
        let others = protocol::only_grpc(grpc).merge(agent.map(rest_of).unwrap_or_default());
        let others = others.merge(mcp::routes(shard.clone()));
        let routes = rest::routes(others, shard.clone(), with_admin.then_some(traces));
        Ok(Self { skills: Some(skills), routes, limited: limited(shard, &services)? })
    }

    /// What operators use, on a listener of its own.
    ///
    /// # Errors
    /// The compiled descriptors can't be read.
    pub(crate) fn admin(shard: &Shard, health: &Health) -> std::io::Result<Self> {
        let traces = Traces { shard: shard.clone(), for_operators: true, is_loopback: false };
        let services = reflection::admin();
        let grpc = reflection::add_to(health.add_to(admin(&traces), &services), &services)?;
        let routes = protocol::only_grpc(grpc).merge(rest::traces(traces));
        Ok(Self { skills: None, routes: rest::probes(routes, shard.clone()), limited: limited(shard, &services)? })
    }

    /// An agent alone, which calls skills at another gateway. `shard`: of a gateway without workers, for its bounds.
    ///
    /// # Errors
    /// The compiled descriptors can't be read.
    pub(crate) fn agent(shard: &Shard, health: &Health, agent: &Served) -> std::io::Result<Self> {
        let services = reflection::agent();
        let grpc = health.add_to(with_agent(Routes::default(), Some(agent)), &services);
        let grpc = reflection::add_to(grpc, &services)?;
        let routes = protocol::only_grpc(grpc).merge(rest_of(agent));
        let routes = rest::probes_of_agent(routes, shard.clone());
        Ok(Self { skills: None, routes, limited: None })
    }
}

/// Reflection of `services` for callers that are not administrators, if the gateway requires keys.
fn limited(shard: &Shard, services: &[&'static str]) -> std::io::Result<Option<Router>> {
    if shard.gateway.registry.is_none() {
        return Ok(None);
    }
    let services = reflection::without_administration(services);
    Ok(Some(protocol::only_grpc(reflection::add_to(Routes::default(), &services)?)))
}

/// An agent as it is served: on behalf of the principals that the layers find.
pub(crate) fn served(agent: Hosted) -> Served {
    Served::new(agent, |extensions| {
        let principal = request_context(extensions).principal;
        Owner { principal: principal.name().to_owned(), credential: principal.credential().to_owned() }
    })
}

fn with_agent(grpc: Routes, agent: Option<&Served>) -> Routes {
    agent.into_iter().fold(grpc, |grpc, agent| grpc.add_service(agent::grpc::service(agent.clone())))
}

fn rest_of(agent: &Served) -> Router {
    agent::rest::routes(agent.clone())
}

fn admin(traces: &Traces) -> Routes {
    let admin = AdminServiceServer::new(Admin { shard: traces.shard.clone() });
    let traces = TraceServiceServer::new(traces.clone());
    Routes::default()
        .add_service(admin.max_decoding_message_size(MAX_REQUEST_BYTES))
        .add_service(traces.max_decoding_message_size(MAX_REQUEST_BYTES))
}

type ToAnswer<B> = fn(Response<B>) -> Response<Answer>;
type Refused = Ready<Result<Response<Answer>, Infallible>>;
type GrpcFuture = MapOk<BoxFuture<Response<tonic::body::Body>, Infallible>, ToAnswer<tonic::body::Body>>;
type RestFuture = MapOk<Pin<Box<RouteFuture<Infallible>>>, ToAnswer<Body>>;

impl<B> Service<Request<Inbound<B>>> for Faces
where
    B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Answer>;
    type Error = Infallible;
    type Future = Either<Either<Refused, GrpcFuture>, RestFuture>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Inbound<B>>) -> Self::Future {
        match &mut self.skills {
            Some(skills) if is_for_skills(request.uri().path()) => {
                if let Some(refusal) = protocol::refusal(&request) {
                    return Either::Left(Either::Left(ready(Ok(refusal.map(Answer::Rest)))));
                }
                let request: Request<GrpcBody<B>> = request.map(grpc_body);
                let answer: ToAnswer<_> = |response| response.map(Answer::Grpc);
                Either::Left(Either::Right(skills.call(request).map_ok(answer)))
            }
            _ => {
                // The router serves gRPC too: statuses have to survive in its bodies' errors.
                let request = request.map(|body| Body::new(grpc_body(body)));
                let answer: ToAnswer<_> = rest::answer;
                let routes = match &mut self.limited {
                    Some(limited) if reflection::is_for(request.uri().path()) && !is_admin(&request) => limited,
                    _ => &mut self.routes,
                };
                // Boxed, so that a call's future does not reserve space for it.
                Either::Right(Box::pin(routes.call(request)).map_ok(answer))
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

/// The answer to a request that is refused before it is routed.
pub(crate) fn refuse(unwelcome: Unwelcome, headers: &HeaderMap, extensions: &Extensions) -> Response<Answer> {
    let (status, code, message) = match unwelcome {
        Unwelcome::Malformed(fault) => (StatusCode::BAD_REQUEST, ErrorCode::InvalidArgument, fault),
        Unwelcome::Foreign(Foreign::Site) => (StatusCode::FORBIDDEN, ErrorCode::PermissionDenied, OTHER_SITE),
        Unwelcome::Foreign(Foreign::Host) => (StatusCode::FORBIDDEN, ErrorCode::PermissionDenied, OTHER_HOST),
    };
    if code == ErrorCode::PermissionDenied && protocol::has_grpc_type(headers) {
        let status = grpc::status::of(&SkillError::new(code, message));
        return status.into_http::<tonic::body::Body>().map(Answer::Grpc);
    }
    let trace_id = request_context(extensions).trace.id;
    let mut refusal = rest::answer(rest::body::refuse(status, code, message, &trace_id).into_response());
    if let Unwelcome::Malformed(_) = unwelcome {
        // Nobody knows where the next request of the connection begins.
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
