//! Authenticates requests, if the gateway requires keys or tokens, and rejects those without a valid one.
//!
//! Without a file of keys or issuers, it costs one branch a request.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as poll_ready};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::Either;
use http::header::{AUTHORIZATION, CONTENT_TYPE, WWW_AUTHENTICATE};
use http::{Extensions, HeaderMap, Method, Request, Response};
use http_body::Frame;
use openskill_proto::timestamp::Timestamp;
use openskill_proto::trace::Trace;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::call::principal::Principal;
use crate::identity::audit;
use crate::identity::credentials::Credentials;
use crate::identity::identified::Identified;
use crate::identity::issuer::LiveIssuer;
use crate::identity::registry::{Registry, Unidentified};
use crate::serve::bodies::ending::Ending;
use crate::serve::bodies::outbound::Answer;
use crate::serve::resource::Resource;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// It has no valid credentials. The answer does not say what is wrong with them.
    Unauthenticated,
    /// It is for administrators.
    NotAdmin,
}

/// A kind of stream, by the last thing that its client can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamKind {
    Grpc,
    ServerSentEvents,
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
    /// Whether the answer to a gRPC request with this path is a stream.
    pub(crate) is_stream: fn(&str) -> bool,
    /// The kind of a stream of events at this path.
    pub(crate) events: fn(&str) -> StreamKind,
    /// The answer to a request that is refused.
    pub(crate) refuse: fn(Denied, &HeaderMap, &Extensions) -> Response<Answer>,
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

impl<S, B> Service<Request<B>> for IdentityService<S>
where
    S: Service<Request<B>, Response = Response<Answer>, Error: Send, Future: Send> + Clone + Send + 'static,
    B: Send + 'static,
{
    type Response = Response<Answer>;
    type Error = S::Error;
    type Future = Either<ResponseFuture<S::Future>, Either<Answered<S::Error>, Later<S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(registry) = &self.layer.registry else {
            return Either::Left(ResponseFuture { response: self.inner.call(request), stream: None });
        };
        match admit(registry, &self.layer.rules, &mut request) {
            Ok(stream) => Either::Left(ResponseFuture { response: self.inner.call(request), stream }),
            Err(Stopped::Denied(denied)) => {
                Either::Right(Either::Left(ready(Ok(self.layer.refusal(denied, &request)))))
            }
            Err(Stopped::Later(issuer)) => {
                let (registry, layer, mut inner) = (Arc::clone(registry), self.layer.clone(), self.inner.clone());
                Either::Right(Either::Right(Box::pin(async move {
                    issuer.learned().await;
                    match admit(&registry, &layer.rules, &mut request) {
                        Ok(stream) => ResponseFuture { response: inner.call(request), stream }.await,
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
        let mut refusal = (self.rules.refuse)(denied, request.headers(), request.extensions());
        let challenge = self.resource.as_ref().filter(|_| denied == Denied::Unauthenticated);
        if let Some(challenge) = challenge.and_then(|it| it.challenge(request.uri(), request.headers())) {
            refusal.headers_mut().insert(WWW_AUTHENTICATE, challenge);
        }
        refusal
    }
}

/// What a response needs if it is a stream.
#[derive(Debug)]
struct Begun {
    identified: Arc<Identified>,
    /// Whether a gRPC answer is a stream. Over REST, its content type says so.
    is_grpc_stream: bool,
    events: StreamKind,
    trace_id: String,
    last: fn(StreamKind, &str) -> Frame<Bytes>,
}

fn trace_id<B>(request: &Request<B>) -> &str {
    request.extensions().get::<Trace>().map(|it| it.id.as_str()).unwrap_or_default()
}

fn admit<B>(registry: &Registry, rules: &Rules, request: &mut Request<B>) -> Result<Option<Box<Begun>>, Stopped> {
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
    let principal = Principal::identified(Arc::clone(&identified.account));
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
    let is_grpc_stream = (rules.is_stream)(path);
    let events = (rules.events)(path);
    let scopes = identified.scopes.clone();
    let begun = Begun { identified, is_grpc_stream, events, trace_id, last: rules.last };
    request.extensions_mut().insert(principal);
    if let Some(scopes) = scopes {
        request.extensions_mut().insert(scopes);
    }
    // Nothing behind this layer needs it, so nothing can show it.
    request.headers_mut().remove(AUTHORIZATION);
    Ok(Some(Box::new(begun)))
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
    /// Makes a stream end with its key.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        stream: Option<Box<Begun>>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Answer>, E>>,
{
    type Output = Result<Response<Answer>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let response = poll_ready!(this.response.poll(context))?;
        Poll::Ready(Ok(match this.stream.take() {
            Some(begun) => begun.bind(response),
            None => response,
        }))
    }
}

impl Begun {
    fn bind(&self, response: Response<Answer>) -> Response<Answer> {
        let kind = response.headers().get(CONTENT_TYPE).map(http::HeaderValue::as_bytes).unwrap_or_default();
        let kind = match kind {
            kind if kind.starts_with(b"text/event-stream") => self.events,
            kind if kind.starts_with(b"application/grpc") && self.is_grpc_stream => StreamKind::Grpc,
            // A call that was admitted gets its result.
            _ => return response,
        };
        let last = (self.last)(kind, &self.trace_id);
        let Identified { ended, expires, .. } = &*self.identified;
        let left = expires.map(|end| Duration::from_micros(end.0.saturating_sub(Timestamp::now().0)));
        let ended = ended.clone();
        response.map(|body| Answer::Ending(Box::new(Ending::new(body, ended, left, last))))
    }
}
