//! Authenticates requests, if the gateway requires keys or tokens, and rejects those without a valid one. Binds
//! each request to its credential: when the credential ends, so do the request body, the wait for the response, and
//! a streaming response. Only an admitted call still gets its result.
//!
//! Without keys and issuers, it costs one branch per request.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::Body as _;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::trace::Trace;

use super::encoding::has_grpc_type;
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
use crate::serve::faces::refusals::{Denied, StreamKind, deny, last};

/// Why a request can't continue yet, or at all.
enum NotAdmitted {
    Denied(Denied),
    Later(Arc<LiveIssuer>),
}

/// Puts the [`Principal`] of a request into its extensions, and binds the request to its credential. Returns None
/// for an operation that is open to everyone.
///
/// # Errors
/// Why the request is refused.
pub(crate) async fn admit<B>(
    registry: &Registry,
    request: &mut Request<Inbound<B>>,
) -> Result<Option<Box<BoundRequest>>, Denied> {
    let issuer = match try_admit(registry, request) {
        Ok(bound) => return Ok(bound),
        Err(NotAdmitted::Denied(denied)) => return Err(denied),
        Err(NotAdmitted::Later(issuer)) => issuer,
    };
    // Boxed, so that the futures of other requests do not reserve space for it.
    Box::pin(issuer.wait_for_refresh()).await;
    match try_admit(registry, request) {
        Ok(bound) => Ok(bound),
        Err(NotAdmitted::Denied(denied)) => Err(denied),
        // Fetch the issuer's keys at most once per request.
        Err(NotAdmitted::Later(_)) => {
            audit::log_unauthenticated(request.uri().path(), "token with an unknown key", trace_id(request));
            Err(Denied::Unauthenticated)
        }
    }
}

/// Binds a request to its credential.
pub(crate) struct BoundRequest {
    grant: Arc<Grant>,
    watch: CredentialWatch,
    is_grpc: bool,
    /// Whether a gRPC response is a stream.
    is_grpc_stream: bool,
    events: StreamKind,
    trace_id: String,
}

/// Returns the trace id of a request.
pub(crate) fn trace_id<B>(request: &Request<B>) -> &str {
    request.extensions().get::<Trace>().map(|it| it.id.as_str()).unwrap_or_default()
}

fn try_admit<B>(
    registry: &Registry,
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
        is_grpc: has_grpc_type(request.headers()),
        is_grpc_stream: operation.is_some_and(|it| it.streaming != Streaming::Neither),
        events: match operation.map(|it| it.protocol) {
            Some(Protocol::Mcp) => StreamKind::JsonRpc,
            _ => StreamKind::ServerSentEvents,
        },
        trace_id,
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

impl BoundRequest {
    /// Runs a request until its credential ends. A streaming response also ends with it.
    pub(crate) async fn run(
        mut self: Box<Self>,
        mut response: Pin<&mut impl Future<Output = Response<Body>>>,
    ) -> Response<Body> {
        let finished = poll_fn(|context| {
            // Check first, so that a request has no effect after its credential ended.
            if self.is_over() {
                return Poll::Ready(None);
            }
            match response.as_mut().poll(context) {
                Poll::Ready(response) => Poll::Ready(Some(response)),
                Poll::Pending => self.poll_over(context).map(|()| None),
            }
        });
        match finished.await {
            Some(response) => self.bind(response),
            None => deny(Denied::Ended, self.is_grpc, &self.trace_id),
        }
    }

    /// Whether the request must end because its credential did.
    fn is_over(&self) -> bool {
        !self.grant.is_admitted() && self.watch.has_ended()
    }

    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.grant.is_admitted() { Poll::Pending } else { self.watch.poll_end(context) }
    }

    /// Makes a streaming response end with the credential.
    fn bind(self: Box<Self>, response: Response<Body>) -> Response<Body> {
        let is_grpc = has_grpc_type(response.headers());
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
        let last = kind.map(|kind| last(kind, &self.trace_id));
        response.map(|body| Body::new(CredentialBound::new(body, self.watch, last)))
    }
}
