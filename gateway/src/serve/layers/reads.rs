//! Bounds the requests in flight that are no calls: pages, the catalog, artifacts, metrics, streams of changes. Clients that do
//! not read them would otherwise fill the gateway's memory and take its time from calls. And says whose each request is, to
//! [`super::bodies`].

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as poll_ready};

use futures_util::future::Either;
use http::{Extensions, HeaderMap, Method, Request, Response};
use openskill_identity::shares::Share;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use crate::call::principal::Principal;
use crate::serve::bodies::guarded::Guarded;
use crate::serve::bodies::inbound::Inbound;
use crate::serve::bodies::outbound::{Answer, AnswerOwner};
use crate::state::limits::{Limits, SharedLimit};

/// Answers requests past their principal's share of a pool with `refuse`.
#[derive(Debug, Clone)]
pub(crate) struct ReadsLayer {
    /// Of the gateway, or of the listener for operators alone.
    pub(crate) limits: Limits,
    /// Administrators keep room, whatever others hold.
    pub(crate) of_administrators: Limits,
    /// The pool that a request counts towards. None: a call, or a probe.
    pub(crate) which: fn(&Method, &str) -> Option<SharedLimit>,
    /// The answer to a request past the bound.
    pub(crate) refuse: fn(SharedLimit, &HeaderMap, &Extensions) -> Response<Answer>,
}

/// See [`ReadsLayer`].
#[derive(Debug, Clone)]
pub(crate) struct ReadsService<S> {
    layer: ReadsLayer,
    inner: S,
}

impl ReadsLayer {
    /// The place of a request, if it needs one. Err: of what there is none left for its principal.
    fn place<B>(&self, request: &Request<B>) -> Result<Option<Share>, SharedLimit> {
        let Some(limit) = (self.which)(request.method(), request.uri().path()) else { return Ok(None) };
        let principal = request.extensions().get::<Principal>().cloned().unwrap_or_default();
        let limits = if principal.is_admin() { &self.of_administrators } else { &self.limits };
        limits.pool(limit).take(principal.shared_name(), 1).map(Some).ok_or(limit)
    }
}

impl<S> Layer<S> for ReadsLayer {
    type Service = ReadsService<S>;

    fn layer(&self, inner: S) -> ReadsService<S> {
        ReadsService { layer: self.clone(), inner }
    }
}

impl<S, B> Service<Request<Inbound<B>>> for ReadsService<S>
where
    S: Service<Request<Inbound<B>>, Response = Response<Answer>>,
{
    type Response = Response<Answer>;
    type Error = S::Error;
    type Future = Either<ResponseFuture<S::Future>, Ready<Result<Response<Answer>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Inbound<B>>) -> Self::Future {
        let place = match self.layer.place(&request) {
            Ok(place) => place,
            Err(limit) => {
                let refusal = (self.layer.refuse)(limit, request.headers(), request.extensions());
                return Either::Right(ready(Ok(refusal)));
            }
        };
        let owner = request.extensions().get::<Principal>().map(Principal::shared_name);
        if let Some(owner) = &owner {
            request.body_mut().belong_to(owner);
        }
        Either::Left(ResponseFuture { response: self.inner.call(request), place, owner })
    }
}

pin_project! {
    /// Gives the place, if there is one, to the response's body, and the response to its principal.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        place: Option<Share>,
        owner: Option<Arc<str>>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<Answer>, E>>,
{
    type Output = Result<Response<Answer>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = poll_ready!(this.response.poll(context))?;
        if let Some(owner) = this.owner.take() {
            response.extensions_mut().insert(AnswerOwner(owner));
        }
        Poll::Ready(Ok(match this.place.take() {
            Some(place) => response.map(|body| Answer::Read(Box::new(Guarded::new(body, place)))),
            None => response,
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use http::StatusCode;
    use openskill_identity::shares::Pool;

    use super::*;

    fn answer(status: StatusCode) -> Response<Answer> {
        let mut answer = Response::new(Answer::Rest(Body::empty()));
        *answer.status_mut() = status;
        answer
    }

    fn get(path: &str, principal: &str) -> Request<Inbound<Body>> {
        let mut request = Request::get(path).body(Inbound::new(Body::empty(), false, &Pool::new(0))).unwrap();
        request.extensions_mut().insert(Principal::of(principal));
        request
    }

    #[tokio::test]
    async fn one_principal_never_takes_all_places_and_gets_its_own_back() {
        let layer = ReadsLayer {
            limits: Limits::default(),
            of_administrators: Limits::default(),
            which: |_, path| (path == "/page").then_some(SharedLimit::Pages),
            refuse: |_, _, _| answer(StatusCode::SERVICE_UNAVAILABLE),
        };
        let mut service =
            layer.layer(tower::service_fn(|_: Request<_>| ready(Ok::<_, Infallible>(answer(StatusCode::OK)))));
        let mut ask = async |path: &str, principal: &str| service.call(get(path, principal)).await.unwrap();
        let mut sending = Vec::new();
        let refused = loop {
            match ask("/page", "greedy").await {
                answer if answer.status() == StatusCode::OK => sending.push(answer),
                refused => break refused,
            }
        };
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(sending.len() * 5 <= SharedLimit::Pages.bound() * 4 + 5, "{}", sending.len());
        assert_eq!(ask("/other", "greedy").await.status(), StatusCode::OK, "which counts towards nothing");
        assert_eq!(ask("/page", "honest").await.status(), StatusCode::OK);
        sending.pop();
        assert_eq!(ask("/page", "greedy").await.status(), StatusCode::OK);
    }
}
