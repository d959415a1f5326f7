//! Sends requests over pooled connections, only to addresses that the skill may reach, with a limited number of
//! interim responses.
//!
//! reqwest provides the request and response types. It does not expose its connections or interim responses, so
//! this module builds connections in the same way, from the same libraries.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use http::Uri;
use http::header::{ACCEPT, HeaderValue, USER_AGENT};
use hyper_rustls::{HttpsConnector, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::client::legacy::{Client, Error};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use reqwest::dns::{Addrs, Resolve};
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::ConfigVerifierExt as _;
use tokio::net::TcpStream;
use tower::Service;

use super::cause::cause;
use super::interim::{MAX_INTERIM, Watch, WatchedConnection};

/// The `User-Agent` of all requests.
pub const OUR_NAME: &str = concat!("openskill/", env!("CARGO_PKG_VERSION"));

/// The maximum number of times a request is repeated that an HTTP/2 server certainly did not process.
const MAX_REPEATS: u32 = 2;

/// The TCP settings that close a connection whose server stops responding.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_TRIES: u32 = 3;
const UNACKNOWLEDGED: Duration = Duration::from_secs(30);

/// The connect timeout. A call's deadline may be earlier.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long idle connections and idle clients are kept.
pub const IDLE: Duration = Duration::from_secs(60);

/// The maximum number of idle connections to one server.
pub(super) const IDLE_PER_HOST: usize = 64;

/// The maximum total size of response headers in bytes (HTTP/2), and the maximum number of response headers
/// (HTTP/1).
pub(super) const MAX_HEADER_LIST_BYTES: u32 = 64 * 1024;
pub(super) const MAX_HEADERS: usize = 100;

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// The server sent too many interim responses before the final one.
    #[error("the server sent more than {MAX_INTERIM} interim answers (1xx) before its final one")]
    TooManyInterim,
    /// The request is invalid and can't be sent.
    #[error("the request cannot be sent")]
    Request(#[source] reqwest::Error),
    /// The connection could not be established or was lost.
    #[error("the request failed")]
    Failed(#[source] Error),
}

impl SendError {
    /// Returns whether it is certain that no part of the request reached the server.
    pub fn was_unsent(&self) -> bool {
        match self {
            Self::TooManyInterim => false,
            Self::Request(_) => true,
            Self::Failed(error) => error.is_connect(),
        }
    }
}

/// The name could not be resolved to any allowed address.
#[derive(Debug, thiserror::Error)]
#[error("the name cannot be resolved")]
pub struct LookUpError(#[source] BoxError);

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An HTTP client with a connection pool. It does not follow redirects or use proxies. Cheap to clone.
#[derive(Clone)]
pub struct Transport(Client<Connector, reqwest::Body>);

impl Transport {
    /// Creates a client. `resolver` must return only allowed addresses.
    pub(super) fn new(resolver: Arc<dyn Resolve>) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(ResolverService(resolver));
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
        tcp.set_keepalive(Some(KEEPALIVE));
        tcp.set_keepalive_interval(Some(KEEPALIVE));
        tcp.set_keepalive_retries(Some(KEEPALIVE_TRIES));
        tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let connector = Connector(HttpsConnector::from((tcp, encryption())));
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_PER_HOST)
            .http1_max_headers(MAX_HEADERS)
            .http2_max_header_list_size(MAX_HEADER_LIST_BYTES)
            .build(connector);
        Self(client)
    }

    /// Sends a request and reads the head of the final response. Dropping the future closes the connection.
    ///
    /// # Errors
    /// No final response arrived.
    pub async fn execute(&self, mut request: reqwest::Request) -> Result<reqwest::Response, SendError> {
        for _ in 0..MAX_REPEATS {
            let Some(again) = request.try_clone() else { break };
            match self.send(request).await {
                Err(SendError::Failed(error)) if is_unprocessed(&error) => request = again,
                sent => return sent,
            }
        }
        self.send(request).await
    }

    async fn send(&self, request: reqwest::Request) -> Result<reqwest::Response, SendError> {
        let mut request =
            http::Request::<reqwest::Body>::try_from(request).map_err(|it| SendError::Request(it.without_url()))?;
        let headers = request.headers_mut();
        headers.entry(ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(OUR_NAME));
        let watch = Watch::over(&mut request);
        match self.0.request(request).await {
            // Takes precedence even over a final response.
            _ if watch.is_flooded() => Err(SendError::TooManyInterim),
            Ok(response) => Ok(response.map(reqwest::Body::wrap).into()),
            Err(error) => Err(SendError::Failed(error)),
        }
    }
}

/// Returns whether the server reported that it did not process a request, because it was closing the connection or
/// overloaded.
fn is_unprocessed(error: &Error) -> bool {
    let Some(error) = cause::<h2::Error>(error).filter(|it| it.is_remote()) else { return false };
    let reason = error.reason();
    (error.is_go_away() && reason == Some(h2::Reason::NO_ERROR))
        || (error.is_reset() && reason == Some(h2::Reason::REFUSED_STREAM))
}

/// Returns a TLS configuration with the system's certificates.
fn encryption() -> ClientConfig {
    let mut config = ClientConfig::with_platform_verifier().unwrap_or_else(|error| {
        // Without the system's certificates, https servers can't be trusted. Plain http does not need them.
        tracing::warn!(%error, "no usable root certificates on this system: HTTPS requests of skills will fail");
        ClientConfig::builder().with_root_certificates(RootCertStore::empty()).with_no_client_auth()
    });
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config
}

/// Opens connections, using TLS for https URLs.
#[derive(Clone)]
struct Connector(HttpsConnector<HttpConnector<ResolverService>>);

impl Service<Uri> for Connector {
    type Response = TokioIo<WatchedConnection<TokioIo<MaybeHttpsStream<TokioIo<TcpStream>>>>>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, place: Uri) -> Self::Future {
        let connected = tokio::time::timeout(CONNECT_TIMEOUT, self.0.call(place));
        let timed_out = |_| io::Error::from(io::ErrorKind::TimedOut);
        async move { Ok(TokioIo::new(WatchedConnection::new(TokioIo::new(connected.await.map_err(timed_out)??)))) }
            .boxed()
    }
}

/// Resolves names with the transport's resolver.
#[derive(Clone)]
struct ResolverService(Arc<dyn Resolve>);

impl Service<Name> for ResolverService {
    type Response = Addrs;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Addrs, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let resolving = name.as_str().parse().map(|name| self.0.resolve(name));
        async move { resolving?.await.map_err(|error| LookUpError(error).into()) }.boxed()
    }
}
