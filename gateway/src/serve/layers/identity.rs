//! Authenticates requests, if the gateway requires keys or tokens, and rejects those without a valid one. Binds
//! each request to its credential: when the credential ends, so do the request body, the wait for the response, and
//! a streaming response. Only an admitted call still gets its result.
//!
//! Without keys and issuers, it costs one branch per request.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::Either;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::{Body as _, Frame};
use openskill_proto::timestamp::Timestamp;
use openskill_proto::trace::Trace;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::operation;
use crate::call::operation::{Access, Audit, Protocol, Streaming};
use crate::call::principal::Principal;
use crate::identity::audit;
use crate::identity::credentials::Credentials;
use crate::identity::grant::Grant;
use crate::identity::identified::{CredentialWatch, Identified};
use crate::identity::issuer::LiveIssuer;
use crate::identity::registry::{Registry, Unidentified};
use crate::serve::bodies::credential_bound::CredentialBound;
use crate::serve::bodies::inbound::Inbound;
use crate::serve::bodies::outbound::ResponseBody;
use crate::serve::resource::Resource;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It has no valid credentials. The response does not tell what is wrong with them.
    Unauthenticated,
    /// Its credentials ended before the response began.
    Ended,
    /// The caller is not an administrator.
    NotAdmin,
}

/// Determines the format of a stream's last frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Grpc,
    ServerSentEvents,
    /// JSON lines.
    Lines,
    /// JSON-RPC messages.
    JsonRpc,
}

/// What the layer needs to know about the protocols of the faces.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Whether a message has gRPC's media type.
    pub(crate) is_grpc: fn(&HeaderMap) -> bool,
    /// Builds the response to a refused request. The flag: whether it came over gRPC. The string: its trace id.
    pub(crate) refuse: fn(Denied, bool, &str) -> Response<ResponseBody>,
    /// Builds the last frame of a stream whose key was revoked or has expired.
    pub(crate) last: fn(StreamKind, &str) -> Frame<Bytes>,
}

/// Puts a [`Principal`] into each request's extensions.
#[derive(Debug, Clone)]
pub(crate) struct IdentityLayer {
    /// None if the gateway does not authenticate callers.
    pub(crate) registry: Option<Arc<Registry>>,
    pub(crate) rules: Rules,
    /// Tells clients where to get a token. None if the gateway accepts no tokens.
    pub(crate) resource: Option<Resource>,
}

/// See [`IdentityLayer`].
#[derive(Debug, Clone)]
pub(crate) struct IdentityService<S> {
    layer: IdentityLayer,
    inner: S,
}

impl<S> Layer<S> for IdentityLayer {
    type Service = IdentityService<S>;

    fn layer(&self, inner: S) -> IdentityService<S> {
        IdentityService { layer: self.clone(), inner }
    }
}

impl<S, B> Service<Request<Inbound<B>>> for IdentityService<S>
where
    S: Service<Request<Inbound<B>>, Response = Response<ResponseBody>, Error: Send, Future: Send>
        + Clone
        + Send
        + 'static,
    B: Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = Either<ResponseFuture<S::Future>, Either<ReadyResponse<S::Error>, DelayedResponse<S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Inbound<B>>) -> Self::Future {
        let Some(registry) = &self.layer.registry else {
            return Either::Left(ResponseFuture { response: self.inner.call(request), bound: None });
        };
        match admit(registry, &self.layer.rules, &mut request) {
            Ok(bound) => Either::Left(ResponseFuture { response: self.inner.call(request), bound }),
            Err(NotAdmitted::Denied(denied)) => {
                Either::Right(Either::Left(ready(Ok(self.layer.refusal(denied, &request)))))
            }
            Err(NotAdmitted::Later(issuer)) => {
                let (registry, layer, mut inner) = (Arc::clone(registry), self.layer.clone(), self.inner.clone());
                Either::Right(Either::Right(Box::pin(async move {
                    issuer.wait_for_refresh().await;
                    match admit(&registry, &layer.rules, &mut request) {
                        Ok(bound) => ResponseFuture { response: inner.call(request), bound }.await,
                        // Fetch the issuer's keys at most once per request.
                        Err(NotAdmitted::Later(_)) => {
                            audit::log_unauthenticated(
                                request.uri().path(),
                                "token with an unknown key",
                                trace_id(&request),
                            );
                            Ok(layer.refusal(Denied::Unauthenticated, &request))
                        }
                        Err(NotAdmitted::Denied(denied)) => Ok(layer.refusal(denied, &request)),
                    }
                })))
            }
        }
    }
}

/// The response to a request that is refused at once.
type ReadyResponse<E> = Ready<Result<Response<ResponseBody>, E>>;

/// A request that is waiting for an issuer's keys.
type DelayedResponse<E> = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, E>> + Send>>;

/// Why a request can't continue yet, or at all.
enum NotAdmitted {
    Denied(Denied),
    Later(Arc<LiveIssuer>),
}

impl IdentityLayer {
    fn refusal<B>(&self, denied: Denied, request: &Request<B>) -> Response<ResponseBody> {
        let mut refusal = (self.rules.refuse)(denied, (self.rules.is_grpc)(request.headers()), trace_id(request));
        let challenge = self.resource.as_ref().filter(|_| denied == Denied::Unauthenticated);
        if let Some(challenge) = challenge.and_then(|it| it.challenge(request.uri(), request.headers())) {
            refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        refusal
    }
}

/// Binds a request to its credential.
struct BoundRequest {
    grant: Arc<Grant>,
    watch: CredentialWatch,
    is_grpc: bool,
    /// Whether a gRPC response is a stream.
    is_grpc_stream: bool,
    events: StreamKind,
    trace_id: String,
    rules: Rules,
}

fn trace_id<B>(request: &Request<B>) -> &str {
    request.extensions().get::<Trace>().map(|it| it.id.as_str()).unwrap_or_default()
}

fn admit<B>(
    registry: &Registry,
    rules: &Rules,
    request: &mut Request<Inbound<B>>,
) -> Result<Option<Box<BoundRequest>>, NotAdmitted> {
    let operation = operation(request.extensions()).copied();
    if is_preflight(request) || operation.is_some_and(|it| it.access == Access::Open) {
        request.extensions_mut().insert(Principal::nobody(""));
        return Ok(None);
    }
    let trace_id = trace_id(request).to_owned();
    let path = request.uri().path();
    let identified = identify(registry, request.headers()).map_err(|unidentified| match unidentified {
        Unidentified::Later(issuer) => NotAdmitted::Later(issuer),
        Unidentified::Invalid(reason) => {
            audit::log_unauthenticated(path, reason, &trace_id);
            NotAdmitted::Denied(Denied::Unauthenticated)
        }
    })?;
    let grant = Grant::new(Arc::clone(&identified));
    let principal = Principal::from_grant(Arc::clone(&grant));
    if principal.is_admin() {
        let (name, credential) = (principal.name(), &identified.credential);
        match operation.and_then(|it| it.audit) {
            Some(Audit::Change) => audit::log_administered(name, credential, path, &trace_id),
            Some(Audit::Insight) => audit::log_inspected(name, credential, path, &trace_id),
            None => {}
        }
    } else if operation.is_some_and(|it| it.access == Access::Administrator) {
        audit::log_forbidden(principal.name(), path, &trace_id);
        return Err(NotAdmitted::Denied(Denied::NotAdmin));
    }
    let bound = BoundRequest {
        grant,
        watch: CredentialWatch::new(Arc::clone(&identified)),
        is_grpc: (rules.is_grpc)(request.headers()),
        is_grpc_stream: operation.is_some_and(|it| it.streaming != Streaming::Neither),
        events: match operation.map(|it| it.protocol) {
            Some(Protocol::Mcp) => StreamKind::JsonRpc,
            _ => StreamKind::ServerSentEvents,
        },
        trace_id,
        rules: *rules,
    };
    request.body_mut().end_with(CredentialWatch::new(Arc::clone(&identified)));
    request.extensions_mut().insert(principal);
    if let Some(scopes) = &identified.scopes {
        request.extensions_mut().insert(scopes.clone());
    }
    // Inner layers don't need it. Without it, they can't leak it.
    request.headers_mut().remove(AUTHORIZATION);
    Ok(Some(Box::new(bound)))
}

/// Whether this is a CORS preflight request, which has no credentials.
fn is_preflight<B>(request: &Request<B>) -> bool {
    *request.method() == Method::OPTIONS && request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD)
}

/// Identifies the caller. Rejects repeated headers, because a proxy may have checked another one.
fn identify(registry: &Registry, headers: &HeaderMap) -> Result<Arc<Identified>, Unidentified> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let only = values.next().ok_or(Unidentified::Invalid("no credentials"))?;
    if values.next().is_some() {
        return Err(Unidentified::Invalid("several credentials"));
    }
    let credentials = Credentials::read(only.as_bytes()).ok_or(Unidentified::Invalid("malformed"))?;
    registry.identify(credentials, Timestamp::now())
}

pin_project! {
    /// A response that ends when its credential does.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        bound: Option<Box<BoundRequest>>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, E>>,
{
    type Output = Result<Response<ResponseBody>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // Check first, so that a request has no effect after its credential ended.
        if let Some(bound) = this.bound.as_ref().filter(|it| it.is_over()) {
            return Poll::Ready(Ok(bound.refusal()));
        }
        match this.response.poll(context)? {
            Poll::Ready(response) => Poll::Ready(Ok(match this.bound.take() {
                Some(bound) => bound.bind(response),
                None => response,
            })),
            Poll::Pending => match this.bound {
                Some(bound) => bound.poll_over(context).map(|()| Ok(bound.refusal())),
                None => Poll::Pending,
            },
        }
    }
}

impl BoundRequest {
    /// Whether the request must end because its credential did.
    fn is_over(&self) -> bool {
        !self.grant.is_admitted() && self.watch.has_ended()
    }

    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.grant.is_admitted() { Poll::Pending } else { self.watch.poll_end(context) }
    }

    fn refusal(&self) -> Response<ResponseBody> {
        (self.rules.refuse)(Denied::Ended, self.is_grpc, &self.trace_id)
    }

    /// Makes a streaming response end with the credential.
    fn bind(self: Box<Self>, response: Response<ResponseBody>) -> Response<ResponseBody> {
        let is_grpc = (self.rules.is_grpc)(response.headers());
        let is_stream = if is_grpc { self.is_grpc_stream } else { response.body().size_hint().exact().is_none() };
        if !is_stream {
            return response;
        }
        let kind = response.headers().get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
        let kind = match kind {
            _ if is_grpc => Some(StreamKind::Grpc),
            kind if kind.starts_with(b"text/event-stream") => Some(self.events),
            kind if kind.starts_with(b"application/x-ndjson") => Some(StreamKind::Lines),
            _ => None,
        };
        let last = kind.map(|kind| (self.rules.last)(kind, &self.trace_id));
        response.map(|body| ResponseBody::CredentialBound(Box::new(CredentialBound::new(body, self.watch, last))))
    }
}
