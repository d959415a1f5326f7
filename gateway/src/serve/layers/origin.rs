//! Refuses requests from web pages of other sites.
//!
//! The gateway listens on loopback without a password, and so does every browser on the machine: a page of any site could
//! send it calls (cross-site requests), or point its own name here (DNS rebinding). So a request with an `Origin`, which
//! only browsers send, must come from the gateway's own pages, under an IP address or `localhost`; and on a loopback
//! listener no request may name another host.

use std::future::{Ready, ready};
use std::task::{Context, Poll};

use futures_util::future::Either;
use http::uri::Authority;
use http::{HeaderMap, HeaderName, Request, Response, header};
use tower::{Layer, Service};

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Answers requests from other sites with `refuse`, and passes on the rest.
#[derive(Debug)]
pub(crate) struct OriginLayer<R> {
    /// Whether the listener's address is a loopback address.
    pub(crate) is_loopback: bool,
    /// The answer to a request from another site.
    pub(crate) refuse: fn(&http::Extensions) -> Response<R>,
}

/// See [`OriginLayer`].
#[derive(Debug)]
pub(crate) struct OriginService<S, R> {
    layer: OriginLayer<R>,
    inner: S,
}

// Not derived: that would ask for `R: Clone`.
impl<R> Clone for OriginLayer<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for OriginLayer<R> {}

impl<S: Clone, R> Clone for OriginService<S, R> {
    fn clone(&self) -> Self {
        Self { layer: self.layer, inner: self.inner.clone() }
    }
}

impl<S, R> Layer<S> for OriginLayer<R> {
    type Service = OriginService<S, R>;

    fn layer(&self, inner: S) -> OriginService<S, R> {
        OriginService { layer: *self, inner }
    }
}

impl<S, B, R> Service<Request<B>> for OriginService<S, R>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<R>, S::Error>>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let authority = request.uri().authority().map(Authority::as_str);
        if is_welcome(request.headers(), authority, self.layer.is_loopback) {
            Either::Left(self.inner.call(request))
        } else {
            Either::Right(ready(Ok((self.layer.refuse)(request.extensions()))))
        }
    }
}

/// Whether a request does not come from another site. `authority` is that of its URI.
fn is_welcome(headers: &HeaderMap, authority: Option<&str>, is_loopback: bool) -> bool {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = text(SITE);
    if site.is_some_and(|site| !["same-origin", "none"].contains(&site)) {
        return false;
    }
    // HTTP/2 has the host in the URI, HTTP/1 in a header.
    let host = text(header::HOST).or(authority).unwrap_or_default();
    match text(header::ORIGIN) {
        // gRPC over a unix socket or a proxy may name no host.
        None => !is_loopback || host.is_empty() || is_literal(host),
        Some(origin) => {
            let own = origin.split_once("://").is_some_and(|(_, it)| it.eq_ignore_ascii_case(host));
            own && is_literal(host)
        }
    }
}

/// An IP address or `localhost`: a host that nobody can point elsewhere.
fn is_literal(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let host = authority.host().trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn welcome(host: &str, rest: &[(&'static str, &str)]) -> bool {
        welcome_at(host, rest, true)
    }

    fn welcome_at(host: &str, rest: &[(&'static str, &str)], loopback: bool) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, host.parse().unwrap());
        for (name, value) in rest {
            headers.insert(*name, value.parse().unwrap());
        }
        is_welcome(&headers, None, loopback)
    }

    #[test]
    fn programs_and_the_gateways_own_pages_are_admitted() {
        assert!(welcome("127.0.0.1:8000", &[]) && welcome("localhost:8000", &[]) && welcome("[::1]:8000", &[]));
        assert!(welcome_at("gateway.internal:8000", &[], false));
        assert!(welcome("127.0.0.1:8000", &[("origin", "http://127.0.0.1:8000"), ("sec-fetch-site", "same-origin")]));
        assert!(welcome("localhost:8000", &[("origin", "http://localhost:8000")]));
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        assert!(!welcome("127.0.0.1:8000", &[("origin", "http://evil.example")]));
        assert!(!welcome("127.0.0.1:8000", &[("origin", "null")]));
        assert!(!welcome("127.0.0.1:8000", &[("origin", "http://127.0.0.1:9999")]));
        assert!(!welcome("127.0.0.1:8000", &[("sec-fetch-site", "cross-site")]));
        // The names point here, but they are not ours.
        assert!(!welcome("evil.example:8000", &[]));
        assert!(!welcome("evil.example:8000", &[("origin", "http://evil.example:8000")]));
    }
}
