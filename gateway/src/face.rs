//! What every request meets before the face it is for, gRPC or REST, sees it. One function has the whole order: a chain of
//! boxed layers, each of which clones those below it for each request, were a sixth of its instructions.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::response::IntoResponse as _;
use axum::{BoxError, Router};
use bytes::Bytes;
use futures_util::FutureExt as _;
use http::uri::Authority;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body as Arrival;
use hyper::body::Incoming;
use openskill_proto::limits::MAX_REQUEST_BYTES;
use openskill_proto::metadata::TRACE_ID;
use openskill_proto::v1::ErrorCode;
use openskill_proto::v1::admin_service_server::AdminServiceServer;
use openskill_proto::v1::skill_service_server::{SERVICE_NAME, SkillServiceServer};
use tonic::service::Routes;
use tower::Service as _;

use crate::gateway::Gateway;
use crate::grpc::{admin::Admin, skills::Skills};
use crate::health::Health;
use crate::layers::arriving::{Arriving, is_stream};
use crate::layers::leaving::{Leaving, Outgoing};
use crate::layers::origin::Listener;
use crate::layers::{Context, deadline, trace};
use crate::memory::Memory;
use crate::outcome::MAX_ANSWER_BYTES;
use crate::reflection;
use crate::rest::{self, Rest, body};

/// What one shard answers with.
#[derive(Clone)]
pub(crate) struct Face(Arc<Parts>);

struct Parts {
    /// Calls go there straight.
    skills: SkillServiceServer<Skills>,
    /// All the rest: REST, and the other services of gRPC.
    routes: Router,
    listener: Listener,
    arriving: Memory,
    leaving: Memory,
}

impl Face {
    /// # Errors
    /// The services can't be described to clients that ask.
    pub(crate) fn new(
        gateway: &Arc<Gateway>,
        shard: usize,
        health: &Health,
        listener: Listener,
    ) -> std::io::Result<Self> {
        let skills = SkillServiceServer::new(Skills { gateway: Arc::clone(gateway), shard })
            .max_decoding_message_size(MAX_REQUEST_BYTES)
            .max_encoding_message_size(MAX_ANSWER_BYTES + 64 * 1024);
        let admin = AdminServiceServer::new(Admin { gateway: Arc::clone(gateway) })
            .max_decoding_message_size(MAX_REQUEST_BYTES);
        let grpc = health.add_to(Routes::default().add_service(admin));
        let grpc = reflection::add_to(grpc).map_err(std::io::Error::other)?;
        let routes = rest::routes(grpc.into_axum_router(), Rest { gateway: Arc::clone(gateway), shard });
        let (arriving, leaving) = (gateway.arriving.clone(), gateway.leaving.clone());
        Ok(Self(Arc::new(Parts { skills, routes, listener, arriving, leaving })))
    }

    /// Answers one request, whatever its body is.
    pub(crate) fn answer<B>(&self, request: Request<B>) -> impl Future<Output = Response<Leaving>> + Send + use<B>
    where
        B: Arrival<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let parts = Arc::clone(&self.0);
        async move { parts.answer(request).await }
    }
}

impl Parts {
    /// Ids and deadline are read, pages of other sites refused, the body bounded on its way in and the answer on its way out.
    async fn answer<B>(&self, mut request: Request<B>) -> Response<Leaving>
    where
        B: Arrival<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        let context = Context { trace: trace::read(request.headers()), allowed: deadline::read(request.headers()) };
        let id = HeaderValue::from_str(&context.trace.id);
        let authority = request.uri().authority().map(Authority::as_str);
        let mut response = if self.listener.welcomes(request.headers(), authority) {
            request.extensions_mut().insert(context);
            let stream = is_stream(request.uri().path());
            self.route(request.map(|body| Arriving::new(body, stream, &self.arriving))).await
        } else {
            let message = "a web page of another site may not call this gateway";
            body::refuse(StatusCode::FORBIDDEN, ErrorCode::PermissionDenied, message, &context.trace.id)
                .into_response()
                .map(Outgoing::Rest)
        };
        if let Ok(id) = id {
            response.headers_mut().insert(TRACE_ID, id);
        }
        response.map(|body| Leaving::new(body, &self.leaving))
    }

    async fn route<B>(&self, request: Request<Arriving<B>>) -> Response<Outgoing>
    where
        B: Arrival<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<BoxError> + Send,
    {
        if is_for_skills(request.uri().path()) {
            let Ok(response) = self.skills.clone().call(request).await;
            return response.map(Outgoing::Grpc);
        }
        // Boxed, so that a call does not hold room for it.
        let Ok(response) = Box::pin(self.routes.clone().call(request.map(Body::new))).await;
        response.map(Outgoing::Rest)
    }
}

fn is_for_skills(path: &str) -> bool {
    path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME)).is_some_and(|rest| rest.starts_with('/'))
}

impl hyper::service::Service<Request<Incoming>> for Face {
    type Response = Response<Leaving>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        self.answer(request).map(Ok).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_methods_of_the_service_go_straight_there() {
        assert!(is_for_skills("/openskill.v1.SkillService/Invoke"));
        for other in ["/openskill.v1.SkillService", "/openskill.v1.SkillServiceX/Invoke", "/skills", "/", ""] {
            assert!(!is_for_skills(other), "{other}");
        }
    }
}
