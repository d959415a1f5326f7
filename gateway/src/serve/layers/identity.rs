//! Authenticates requests, if the gateway requires keys or tokens, and rejects those without a valid one. Binds each request
//! to its credential: once that has ended, the body of the request brings nothing more, the wait for the response ends, and so
//! does a response that is a stream. Only a call that was admitted gets its result in any case.
//!
//! Without a file of keys or issuers, it costs one branch a request.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::future::Either;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderValue, Method, Request, Response};
use http_body::{Body as _, Frame};
use openskill_proto::timestamp::Timestamp;
use openskill_proto::trace::Trace;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::call::principal::Principal;
use crate::identity::audit;
use crate::identity::credentials::Credentials;
use crate::identity::grant::Grant;
use crate::identity::identified::{CredentialWatch, Identified};
use crate::identity::issuer::LiveIssuer;
use crate::identity::registry::{Registry, Unidentified};
use crate::serve::bodies::ending::Ending;
use crate::serve::bodies::inbound::Inbound;
use crate::serve::bodies::outbound::Answer;
use crate::serve::resource::Resource;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It has no valid credentials. The answer does not say what is wrong with them.
    Unauthenticated,
    /// Its credentials ended before it was answered.
    Ended,
    /// It is for administrators.
    NotAdmin,
}

/// A kind of stream, by the last thing that its client can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Grpc,
    ServerSentEvents,
    /// Events that are lines of JSON.
    Lines,
    /// Events that are JSON-RPC messages.
    JsonRpc,
}

/// What the faces know of their requests.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rules {
    /// Whether the request needs no key: health checks.
    pub(crate) is_open: fn(&Method, &HeaderMap, &str) -> bool,
    /// Whether the path is for administrators.
    pub(crate) is_administration: fn(&str) -> bool,
    /// Whether such a path changes something.
    pub(crate) is_change: fn(&str) -> bool,
    /// Whether administrators see at the path what belongs to others.
    pub(crate) is_insight: fn(&str) -> bool,
    /// Whether the answer to a gRPC request with this path is a stream. Of other answers, those are whose length is not known.
    pub(crate) is_stream: fn(&str) -> bool,
    /// The kind of a stream of server-sent events at this path.
    pub(crate) events: fn(&str) -> StreamKind,
    /// Whether a message has the media type of gRPC.
    pub(crate) is_grpc: fn(&HeaderMap) -> bool,
    /// The answer to a request that is refused, over gRPC or not. The text is its trace id.
    pub(crate) refuse: fn(Denied, bool, &str) -> Response<Answer>,
    /// The last frame of a stream whose key was revoked or has expired.
    pub(crate) last: fn(StreamKind, &str) -> Frame<Bytes>,
}

/// Puts a [`Principal`] into each request's extensions.
#[derive(Debug, Clone)]
pub(crate) struct IdentityLayer {
    /// None: everybody may use the gateway.
    pub(crate) registry: Option<Arc<Registry>>,
    pub(crate) rules: Rules,
    /// Says where to get a token. None: no token counts.
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
    S: Service<Request<Inbound<B>>, Response = Response<Answer>, Error: Send, Future: Send> + Clone + Send + 'static,
    B: Send + 'static,
{
    type Response = Response<Answer>;
    type Error = S::Error;
    type Future = Either<ResponseFuture<S::Future>, Either<Answered<S::Error>, Later<S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Inbound<B>>) -> Self::Future {
        let Some(registry) = &self.layer.registry else {
            return Either::Left(ResponseFuture { response: self.inner.call(request), bound: None });
        };
        match admit(registry, &self.layer.rules, &mut request) {
            Ok(bound) => Either::Left(ResponseFuture { response: self.inner.call(request), bound }),
            Err(Stopped::Denied(denied)) => {
                Either::Right(Either::Left(ready(Ok(self.layer.refusal(denied, &request)))))
            }
            Err(Stopped::Later(issuer)) => {
                let (registry, layer, mut inner) = (Arc::clone(registry), self.layer.clone(), self.inner.clone());
                Either::Right(Either::Right(Box::pin(async move {
                    issuer.learned().await;
                    match admit(&registry, &layer.rules, &mut request) {
                        Ok(bound) => ResponseFuture { response: inner.call(request), bound }.await,
                        // Once is enough.
                        Err(Stopped::Later(_)) => {
                            audit::unauthenticated(
                                request.uri().path(),
                                "token with an unknown key",
                                trace_id(&request),
                            );
                            Ok(layer.refusal(Denied::Unauthenticated, &request))
                        }
                        Err(Stopped::Denied(denied)) => Ok(layer.refusal(denied, &request)),
                    }
                })))
            }
        }
    }
}

/// A refusal.
type Answered<E> = Ready<Result<Response<Answer>, E>>;

/// A request that waits for the keys of an issuer.
type Later<E> = Pin<Box<dyn Future<Output = Result<Response<Answer>, E>> + Send>>;

/// Why a request does not go on now.
enum Stopped {
    Denied(Denied),
    Later(Arc<LiveIssuer>),
}

impl IdentityLayer {
    fn refusal<B>(&self, denied: Denied, request: &Request<B>) -> Response<Answer> {
        let mut refusal = (self.rules.refuse)(denied, (self.rules.is_grpc)(request.headers()), trace_id(request));
        let challenge = self.resource.as_ref().filter(|_| denied == Denied::Unauthenticated);
        if let Some(challenge) = challenge.and_then(|it| it.challenge(request.uri(), request.headers())) {
            refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        refusal
    }
}

/// A request that is bound to its credential.
struct BoundRequest {
    grant: Arc<Grant>,
    watch: CredentialWatch,
    is_grpc: bool,
    /// Whether a gRPC answer is a stream.
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
) -> Result<Option<Box<BoundRequest>>, Stopped> {
    if (rules.is_open)(request.method(), request.headers(), request.uri().path()) {
        request.extensions_mut().insert(Principal::nobody(""));
        return Ok(None);
    }
    let trace_id = trace_id(request).to_owned();
    let path = request.uri().path();
    let identified = identify(registry, request.headers()).map_err(|unidentified| match unidentified {
        Unidentified::Later(issuer) => Stopped::Later(issuer),
        Unidentified::Invalid(reason) => {
            audit::unauthenticated(path, reason, &trace_id);
            Stopped::Denied(Denied::Unauthenticated)
        }
    })?;
    let grant = Grant::new(Arc::clone(&identified));
    let principal = Principal::granted(Arc::clone(&grant));
    if principal.is_admin() {
        let (name, credential) = (principal.name(), &identified.credential);
        if (rules.is_change)(path) {
            audit::administered(name, credential, path, &trace_id);
        } else if (rules.is_insight)(path) {
            audit::inspected(name, credential, path, &trace_id);
        }
    } else if (rules.is_administration)(path) {
        audit::forbidden(principal.name(), path, &trace_id);
        return Err(Stopped::Denied(Denied::NotAdmin));
    }
    let bound = BoundRequest {
        grant,
        watch: CredentialWatch::new(Arc::clone(&identified)),
        is_grpc: (rules.is_grpc)(request.headers()),
        is_grpc_stream: (rules.is_stream)(path),
        events: (rules.events)(path),
        trace_id,
        rules: *rules,
    };
    request.body_mut().end_with(CredentialWatch::new(Arc::clone(&identified)));
    request.extensions_mut().insert(principal);
    if let Some(scopes) = &identified.scopes {
        request.extensions_mut().insert(scopes.clone());
    }
    // Nothing behind this layer needs it, so nothing can show it.
    request.headers_mut().remove(AUTHORIZATION);
    Ok(Some(Box::new(bound)))
}

/// Rejects several headers: a proxy may have checked another one.
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
    /// A response that ends with its credential.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        bound: Option<Box<BoundRequest>>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Answer>, E>>,
{
    type Output = Result<Response<Answer>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        // First: what arrived before the end has no effect after it.
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
    /// Whether the request is not answered any more.
    fn is_over(&self) -> bool {
        !self.grant.is_admitted() && self.watch.has_ended()
    }

    fn poll_over(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.grant.is_admitted() { Poll::Pending } else { self.watch.poll_end(context) }
    }

    fn refusal(&self) -> Response<Answer> {
        (self.rules.refuse)(Denied::Ended, self.is_grpc, &self.trace_id)
    }

    /// Makes a response that is a stream end with the credential.
    fn bind(self: Box<Self>, response: Response<Answer>) -> Response<Answer> {
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
        response.map(|body| Answer::Ending(Box::new(Ending::new(body, self.watch, last))))
    }
}
