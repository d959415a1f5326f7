//! The steps that each request takes before it reaches a face, in order, and what they do to its response.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;

use axum::body::Body;
use http::header::WWW_AUTHENTICATE;
use http::{HeaderValue, Request, Response};
use openskill_proto::metadata::TRACE_ID;
use tower::{Layer as _, Service, ServiceExt as _, service_fn};
use tower_http::cors::CorsLayer;

use super::bodies::guarded::guard;
use super::bodies::inbound::{Inbound, RequestBody};
use super::bodies::outbound::{Outbound, ResponseOwner};
use super::faces::Faces;
use super::faces::refusals::{self, Denied};
use super::layers::encoding::{Encoding, has_grpc_type, is_grpc};
use super::layers::{cors, deadline, identity, operation, reads, screen, trace};
use super::operations;
use super::resource::Resource;
use crate::call::operation::Streaming;
use crate::call::principal::Principal;
use crate::gateway::Gateway;
use crate::state::limits::{Limits, SharedLimit};

/// The steps for the requests of one listener.
struct Stack {
    gateway: Arc<Gateway>,
    faces: Faces,
    /// Whether the listener has a loopback address.
    is_loopback: bool,
    cors: Option<CorsLayer>,
    /// The limits of the gateway, or of the admin listener.
    limits: Limits,
}

/// Builds the complete service of one listener. `is_loopback`: the listener has a loopback address. Its principals
/// share `limits`.
pub(crate) fn stack<B>(
    gateway: &Arc<Gateway>,
    faces: Faces,
    is_loopback: bool,
    limits: &Limits,
) -> impl Service<Request<B>, Response = Response<Outbound>, Error = Infallible, Future: Send> + Clone + Send + use<B>
where
    B: RequestBody,
{
    let stack = Arc::new(Stack {
        gateway: Arc::clone(gateway),
        faces,
        is_loopback,
        cors: cors::layer(gateway.config.sites.as_deref()),
        limits: limits.clone(),
    });
    service_fn(move |request: Request<B>| {
        let stack = Arc::clone(&stack);
        async move { Ok::<_, Infallible>(stack.serve(request).await) }
    })
}

impl Stack {
    /// Reads the trace, the operation and the timeout of a request, and adds its trace id to the response.
    async fn serve<B: RequestBody>(self: &Arc<Self>, mut request: Request<B>) -> Response<Outbound> {
        let trace = trace::read(request.headers());
        let trace_id = trace.id.clone();
        request.extensions_mut().insert(trace);
        if let Some(operation) = operations::find(request.method(), request.uri().path()) {
            request.extensions_mut().insert(operation);
        }
        if let Some(timeout) = deadline::read(request.headers()) {
            request.extensions_mut().insert(timeout);
        }
        let mut response = self.serve_bounded(request, &trace_id).await;
        if let Ok(trace_id) = HeaderValue::try_from(trace_id) {
            // Not overwritten: if a call's message continues another trace, the id is already set.
            response.headers_mut().entry(TRACE_ID).or_insert(trace_id);
        }
        response
    }

    /// Bounds the bodies in both directions. gRPC clients may compress messages with gzip, and then get compressed
    /// responses.
    async fn serve_bounded<B: RequestBody>(
        self: &Arc<Self>,
        mut request: Request<B>,
        trace_id: &str,
    ) -> Response<Outbound> {
        // In a stream, each message has its own timeout.
        let is_stream = operation(request.extensions()).is_some_and(|it| it.streaming == Streaming::Both);
        let encoding = Encoding::take(&mut request);
        let is_over_grpc = is_grpc(request.headers());
        let request = request.map(|body| {
            let body = Inbound::new(body, is_stream, self.limits.pool(SharedLimit::Requests));
            if let Encoding::Gzip { .. } = encoding { body.with_gzip() } else { body }
        });
        let mut response = self.serve_screened(request).await;
        let is_deflated = encoding.answer(response.headers_mut());
        let (owner, is_message) = (response.extensions_mut().remove::<ResponseOwner>(), is_grpc(response.headers()));
        let (head, body) = response.into_parts();
        let outbound = self.limits.pool(SharedLimit::Responses);
        let body = Outbound::new(body, outbound, owner);
        let begun = if is_deflated { body.with_gzip() } else { body }.begin(is_message);
        match begun {
            Ok(body) => Response::from_parts(head, body),
            Err(_) => refusals::too_much(is_over_grpc, trace_id).map(|body| Outbound::new(body, outbound, None)),
        }
    }

    /// Refuses requests with ambiguous heads, and requests from web pages of other sites.
    async fn serve_screened<B: RequestBody>(self: &Arc<Self>, request: Request<Inbound<B>>) -> Response<Body> {
        if let Some(reason) = screen::fault(&request, self.is_loopback, self.gateway.config.sites.as_deref()) {
            return refusals::reject(reason, request.headers(), request.extensions());
        }
        let Some(cors) = &self.cors else { return self.serve_identified(request).await };
        let stack = Arc::clone(self);
        let identified = service_fn(move |request: Request<Inbound<B>>| {
            let stack = Arc::clone(&stack);
            async move { Ok::<_, Infallible>(stack.serve_identified(request).await) }
        });
        // On the heap, so that requests of a gateway without CORS reserve no space for it.
        let Ok(response) = Box::pin(cors.layer(identified).oneshot(request)).await;
        response
    }

    /// Authenticates a request, if the gateway requires keys or tokens.
    async fn serve_identified<B: RequestBody>(&self, mut request: Request<Inbound<B>>) -> Response<Body> {
        let bound = match &self.gateway.registry {
            None => None,
            Some(registry) => match identity::admit(registry, &mut request).await {
                Ok(bound) => bound,
                Err(denied) => return self.deny(denied, &request),
            },
        };
        let response = pin!(self.serve_limited(request));
        match bound {
            Some(bound) => bound.run(response).await,
            None => response.await,
        }
    }

    fn deny<B>(&self, denied: Denied, request: &Request<B>) -> Response<Body> {
        let mut refusal = refusals::deny(denied, has_grpc_type(request.headers()), identity::trace_id(request));
        if denied == Denied::Unauthenticated
            && let Some(resource) = Resource::for_gateway(&self.gateway)
            && let Some(challenge) = resource.challenge(request.uri(), request.headers())
        {
            refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        refusal
    }

    /// Bounds requests in flight other than calls: pages, the catalog, artifacts, metrics, change streams.
    /// Otherwise, clients that do not read their responses would fill the gateway's memory and slow down calls. Also
    /// records which principal the request and its response belong to.
    async fn serve_limited<B: RequestBody>(&self, mut request: Request<Inbound<B>>) -> Response<Body> {
        // Separate limits for administrators, so that other requests can't crowd them out.
        let administrator_limits = &self.gateway.operators;
        let share = match reads::take_share(&self.limits, administrator_limits, request.extensions()) {
            Ok(share) => share,
            Err(limit) => return refusals::shed(limit, request.headers(), request.extensions()),
        };
        let owner = request.extensions().get::<Principal>().map(Principal::shared_name);
        if let Some(owner) = &owner {
            request.body_mut().belong_to(owner);
        }
        let mut response = self.faces.serve(request).await;
        if let Some(owner) = owner {
            response.extensions_mut().insert(ResponseOwner(owner));
        }
        match share {
            Some(share) => response.map(|body| Body::new(guard(body, share))),
            None => response,
        }
    }
}
