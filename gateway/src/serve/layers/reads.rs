//! Bounds requests in flight other than calls: pages, the catalog, artifacts, metrics, change streams. Otherwise,
//! clients that do not read their responses would fill the gateway's memory and slow down calls. Also records, for
//! [`super::bodies`], which principal each request belongs to.

use std::future::{Ready, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready as poll_ready};

use futures_util::future::Either;
use http::{Extensions, HeaderMap, Request, Response};
use openskill_identity::shares::Share;
use pin_project_lite::pin_project;
use tower::{Layer, Service};

use super::operation;
use crate::call::principal::Principal;
use crate::serve::bodies::guarded::Guarded;
use crate::serve::bodies::inbound::Inbound;
use crate::serve::bodies::outbound::{ResponseBody, ResponseOwner};
use crate::state::limits::{Limits, SharedLimit};

/// Refuses requests that exceed their principal's share of a pool.
#[derive(Debug, Clone)]
pub(crate) struct ReadsLayer {
    /// The limits of the gateway, or of the admin listener.
    pub(crate) limits: Limits,
    /// Separate limits for administrators, so that other requests can't crowd them out.
    pub(crate) administrator_limits: Limits,
    /// Builds the response to a request that exceeds the limit.
    pub(crate) refuse: fn(SharedLimit, &HeaderMap, &Extensions) -> Response<ResponseBody>,
}

/// See [`ReadsLayer`].
#[derive(Debug, Clone)]
pub(crate) struct ReadsService<S> {
    layer: ReadsLayer,
    inner: S,
}

impl ReadsLayer {
    /// Takes a request's share of its pool. None if it has no pool. The error is the limit that its principal has
    /// reached.
    fn take_share<B>(&self, request: &Request<B>) -> Result<Option<Share>, SharedLimit> {
        let Some(limit) = operation(request.extensions()).and_then(|it| it.limit) else { return Ok(None) };
        let principal = request.extensions().get::<Principal>().cloned().unwrap_or_default();
        let limits = if principal.is_admin() { &self.administrator_limits } else { &self.limits };
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
    S: Service<Request<Inbound<B>>, Response = Response<ResponseBody>>,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = Either<ResponseFuture<S::Future>, Ready<Result<Response<ResponseBody>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Inbound<B>>) -> Self::Future {
        let share = match self.layer.take_share(&request) {
            Ok(share) => share,
            Err(limit) => {
                let refusal = (self.layer.refuse)(limit, request.headers(), request.extensions());
                return Either::Right(ready(Ok(refusal)));
            }
        };
        let owner = request.extensions().get::<Principal>().map(Principal::shared_name);
        if let Some(owner) = &owner {
            request.body_mut().belong_to(owner);
        }
        Either::Left(ResponseFuture { response: self.inner.call(request), share, owner })
    }
}

pin_project! {
    /// Attaches the share, if any, to the response's body, and the principal to the response.
    pub(crate) struct ResponseFuture<F> {
        #[pin]
        response: F,
        share: Option<Share>,
        owner: Option<Arc<str>>,
    }
}

impl<F, E> Future for ResponseFuture<F>
where
    F: Future<Output = Result<Response<ResponseBody>, E>>,
{
    type Output = Result<Response<ResponseBody>, E>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let mut response = poll_ready!(this.response.poll(context))?;
        if let Some(owner) = this.owner.take() {
            response.extensions_mut().insert(ResponseOwner(owner));
        }
        Poll::Ready(Ok(match this.share.take() {
            Some(share) => response.map(|body| ResponseBody::Guarded(Box::new(Guarded::new(body, share)))),
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
    use crate::call::operation::Operation;

    static PAGE: Operation = Operation::http("GET /page").limit(SharedLimit::Pages);

    fn answer(status: StatusCode) -> Response<ResponseBody> {
        let mut answer = Response::new(ResponseBody::Rest(Body::empty()));
        *answer.status_mut() = status;
        answer
    }

    fn get(path: &str, principal: &str) -> Request<Inbound<Body>> {
        let mut request = Request::get(path).body(Inbound::new(Body::empty(), false, &Pool::new(0))).unwrap();
        request.extensions_mut().insert(Principal::from_name(principal));
        if path == PAGE.path {
            request.extensions_mut().insert(&PAGE);
        }
        request
    }

    #[tokio::test]
    async fn one_principal_never_takes_all_places_and_gets_its_own_back() {
        let layer = ReadsLayer {
            limits: Limits::default(),
            administrator_limits: Limits::default(),
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
