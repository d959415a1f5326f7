//! One HTTP/2 connection from one shard to one worker, made when it is needed and again when it was lost.
//!
//! What sets it apart from a ready-made channel: its errors say whether a request can have reached the worker. A call
//! that cannot have started may go elsewhere.

use std::error::Error as _;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tonic::body::Body;

use super::source::Endpoint;

/// How long connecting may take, handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A silent worker is asked this often whether it lives, and given up after the second.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

/// The connection.
#[derive(Debug)]
pub(crate) struct Link {
    endpoint: Endpoint,
    current: Mutex<Option<SendRequest<Body>>>,
    /// Held while connecting, so that many calls at once make one connection. Holds the last failure and its time.
    connecting: tokio::sync::Mutex<Option<(Instant, String)>>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The request did not reach the worker.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The worker said that it did not look at the request: it is being shut down, say.
    #[error("refused: {0}")]
    Refused(#[source] hyper::Error),
    /// The request may have reached the worker.
    #[error("lost: {}", with_sources(.0))]
    Lost(#[source] hyper::Error),
}

impl Link {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, current: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    async fn sender(&self) -> Result<SendRequest<Body>, LinkError> {
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        let asked = Instant::now();
        let mut last_failure = self.connecting.lock().await;
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        // Who waited while a try failed takes its failure: in turn, they would wait for ever longer.
        if let Some((_, reason)) = last_failure.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(LinkError::NotSent(reason.clone()));
        }
        let failure = match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(Ok(sender)) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(sender.clone());
                return Ok(sender);
            }
            Ok(Err(error)) => format!("{}: {error}", self.endpoint),
            Err(_) => format!("{}: no connection within {} s", self.endpoint, CONNECT_TIMEOUT.as_secs()),
        };
        *last_failure = Some((Instant::now(), failure.clone()));
        Err(LinkError::NotSent(failure))
    }

    fn open(&self) -> Option<SendRequest<Body>> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|sender| !sender.is_closed()).cloned()
    }

    async fn connect(&self) -> Result<SendRequest<Body>, Box<dyn std::error::Error + Send + Sync>> {
        match &self.endpoint {
            Endpoint::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                Ok(handshake(stream).await?)
            }
            Endpoint::Unix(path) => Ok(handshake(UnixStream::connect(path).await?).await?),
        }
    }
}

async fn handshake<S>(stream: S) -> hyper::Result<SendRequest<Body>>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(1 << 20)
        .initial_connection_window_size(1 << 24)
        .max_header_list_size(openskill_proto::limits::MAX_HEADER_BYTES)
        .keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1)
        .keep_alive_while_idle(true)
        .handshake(TokioIo::new(stream))
        .await?;
    // Ends with the last sender, or with the connection; its error reaches each request by itself.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

/// A link as a service, for the generated client.
#[derive(Debug, Clone)]
pub(crate) struct Via(pub(crate) Arc<Link>);

impl tower::Service<http::Request<Body>> for Via {
    type Response = http::Response<Incoming>;
    type Error = LinkError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, LinkError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let link = Arc::clone(&self.0);
        Box::pin(async move {
            let mut sender = link.sender().await?;
            sender.try_send_request(request).await.map_err(|mut error| {
                let unsent = error.take_message().is_some();
                let error = error.into_error();
                match (refused(&error), unsent) {
                    (true, _) => LinkError::Refused(error),
                    (false, true) => LinkError::NotSent(error.to_string()),
                    (false, false) => LinkError::Lost(error),
                }
            })
        })
    }
}

/// An error with all that caused it.
fn with_sources(error: &hyper::Error) -> String {
    let sources = std::iter::successors(error.source(), |cause| (*cause).source());
    sources.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

/// Whether the worker said that it did not look at the request: `REFUSED_STREAM`, or a GOAWAY that leaves it out.
fn refused(error: &hyper::Error) -> bool {
    let cause = error.source().and_then(|source| source.downcast_ref::<h2::Error>());
    cause.is_some_and(|cause| {
        cause.is_remote() && (cause.is_go_away() || cause.reason() == Some(h2::Reason::REFUSED_STREAM))
    })
}
