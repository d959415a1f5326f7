//! One HTTP/2 connection from a shard to a worker, opened on demand and reopened when it is lost.
//!
//! Unlike a tonic channel, its errors tell whether a request may have reached the worker: a call that can't have
//! started may go to another worker. It also passes complete requests to the connection, so that a request is sent
//! in one write, wakes the worker once, and needs no extra task.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::stream;
use h2::client::SendRequest;
use h2::{Ping, PingPong, RecvStream};
use http::Uri;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use openskill_net::local::LocalStream;
use openskill_net::tls::client::Connector;
use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tonic::body::Body;

use super::source::Endpoint;

/// The URI of all requests. The link decides where they are sent.
pub(super) static ORIGIN: LazyLock<Uri> = LazyLock::new(|| Uri::from_static("http://worker"));

/// The timeout for connecting, including the handshake.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of keepalive pings, and the timeout for an answer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

#[derive(Debug)]
pub(crate) struct Link {
    endpoint: Endpoint,
    /// Encrypts the connection. None if the endpoint uses plain text.
    tls: Option<Connector>,
    current: Mutex<Option<OpenConnection>>,
    /// Locked while connecting, so that concurrent calls open only one connection. Contains the last failure and
    /// its time.
    connecting: tokio::sync::Mutex<Option<(Instant, String)>>,
}

/// An open connection that requests are sent on.
#[derive(Debug, Clone)]
struct OpenConnection {
    sender: SendRequest<Bytes>,
    /// Whether the connection accepts no new requests.
    is_closed: Arc<AtomicBool>,
}

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The request did not reach the worker.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The worker reported that it did not process the request, for example because it is shutting down.
    #[error("refused: {0}")]
    Refused(#[source] h2::Error),
    /// The request may have reached the worker.
    #[error("lost: {0}")]
    Lost(#[source] h2::Error),
}

impl Link {
    pub(crate) fn new(endpoint: Endpoint, tls: Option<Connector>) -> Self {
        Self { endpoint, tls, current: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    /// Creates a client for the worker's service over this connection.
    pub(super) fn client(self: &Arc<Self>) -> WorkerServiceClient<Via> {
        WorkerServiceClient::with_origin(Via(Arc::clone(self)), ORIGIN.clone())
    }

    async fn open_or_connect(&self) -> Result<OpenConnection, LinkError> {
        match self.open() {
            Some(open) => Ok(open),
            // Boxed, so that the future of a call stays small.
            None => Box::pin(self.reconnect()).await,
        }
    }

    async fn reconnect(&self) -> Result<OpenConnection, LinkError> {
        let asked = Instant::now();
        let mut last_failure = self.connecting.lock().await;
        if let Some(open) = self.open() {
            return Ok(open);
        }
        // A call that waited while an attempt failed shares that failure: serial attempts would take ever longer.
        if let Some((_, reason)) = last_failure.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(LinkError::NotSent(reason.clone()));
        }
        let failure = match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(Ok(open)) => {
                *self.current.lock() = Some(open.clone());
                return Ok(open);
            }
            Ok(Err(error)) => format!("{}: {error}", self.endpoint),
            Err(_) => format!("{}: no connection within {} s", self.endpoint, CONNECT_TIMEOUT.as_secs()),
        };
        *last_failure = Some((Instant::now(), failure.clone()));
        Err(LinkError::NotSent(failure))
    }

    fn open(&self) -> Option<OpenConnection> {
        let current = self.current.lock();
        current.as_ref().filter(|open| !open.is_closed.load(Ordering::Acquire)).cloned()
    }

    async fn connect(&self) -> Result<OpenConnection, Box<dyn std::error::Error + Send + Sync>> {
        match &self.endpoint {
            Endpoint::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                Ok(handshake(stream, false).await?)
            }
            Endpoint::Tls(authority) => {
                let tls =
                    self.tls.as_ref().ok_or("this gateway has no certificate for its workers (OPENSKILL_MESH_CERT)")?;
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                Ok(handshake(tls.connect(stream, authority).await?, true).await?)
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await?.into_std()?;
                Ok(handshake(LocalStream::new(stream)?, false).await?)
            }
        }
    }
}

/// Performs a handshake, and drives the connection until its last sender is dropped, the worker closes it, or the
/// worker stops answering pings. Requests in flight then fail on their own.
///
/// `is_confirmed`: waits for the first ping response, which shows that the worker accepts requests. Over TLS 1.3,
/// the client finishes before the server has checked its certificate. Otherwise, a call could be lost at a worker
/// that never read it.
async fn handshake<S>(stream: S, is_confirmed: bool) -> Result<OpenConnection, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, mut connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(1 << 20)
        .initial_connection_window_size(1 << 24)
        .max_header_list_size(openskill_proto::limits::MAX_HEADER_BYTES)
        .handshake::<_, Bytes>(stream)
        .await?;
    let mut pings = connection.ping_pong();
    if is_confirmed && let Some(pings) = &mut pings {
        tokio::select! {
            // First, because a connection error is the reason for a failed ping.
            biased;
            ended = &mut connection => {
                ended?;
                return Err(h2::Reason::REFUSED_STREAM.into());
            }
            answered = pings.ping(Ping::opaque()) => {
                answered?;
            }
        }
    }
    let is_closed = Arc::<AtomicBool>::default();
    let open = OpenConnection { sender, is_closed: Arc::clone(&is_closed) };
    tokio::spawn(async move {
        tokio::select! {
            _ = connection => {}
            () = keepalive_timeout(pings) => {}
        }
        is_closed.store(true, Ordering::Release);
    });
    Ok(open)
}

/// Returns when the worker does not answer a keepalive ping.
async fn keepalive_timeout(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        tokio::time::sleep(KEEP_ALIVE.0).await;
        if !matches!(tokio::time::timeout(KEEP_ALIVE.1, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}

impl Link {
    /// Sends a request, and waits for the head of its response. Dropping the future or the response resets the
    /// stream.
    async fn exchange(&self, request: http::Request<Body>) -> Result<http::Response<Body>, LinkError> {
        let not_sent = |error: h2::Error| LinkError::NotSent(error.to_string());
        let (head, body) = request.into_parts();
        // The gateway's own message, which is already in memory.
        let body = body.collect().await.map_err(|status| LinkError::NotSent(status.message().to_owned()))?.to_bytes();
        let mut sender = self.ready().await?;
        let head = http::Request::from_parts(head, ());
        let (response, mut stream) = sender.send_request(head, false).map_err(not_sent)?;
        // If this fails, the response also fails, with the reason.
        let _ = stream.send_data(body, true);
        Ok(response.await.map_err(classify_loss)?.map(response_body))
    }

    /// Returns the connection once it accepts a request.
    async fn ready(&self) -> Result<SendRequest<Bytes>, LinkError> {
        match self.open_or_connect().await?.ready().await {
            // The worker is draining, or was replaced: a new connection may reach it.
            Err(_) => self.open_or_connect().await?.ready().await,
            ready => ready,
        }
    }
}

impl OpenConnection {
    /// Waits until it accepts a request. Marks it as closed if it never will.
    async fn ready(self) -> Result<SendRequest<Bytes>, LinkError> {
        self.sender.ready().await.map_err(|error| {
            self.is_closed.store(true, Ordering::Release);
            LinkError::NotSent(error.to_string())
        })
    }
}

/// A link as a tower service, for the generated client.
#[derive(Debug, Clone)]
pub(crate) struct Via(pub(crate) Arc<Link>);

impl tower::Service<http::Request<Body>> for Via {
    type Response = http::Response<Body>;
    type Error = LinkError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, LinkError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let link = Arc::clone(&self.0);
        Box::pin(async move { link.exchange(request).await })
    }
}

/// Yields the data of a response as it arrives, then the trailers. Dropping the body before its end resets the
/// stream, so that the worker ends the call.
fn response_body(stream: RecvStream) -> Body {
    Body::new(StreamBody::new(stream::try_unfold(Some(stream), |stream| async move {
        let Some(mut stream) = stream else { return Ok(None) };
        if let Some(data) = stream.data().await.transpose()? {
            // Return the flow-control window. On a stream that has ended, this fails, which does no harm.
            let _ = stream.flow_control().release_capacity(data.len());
            return Ok(Some((Frame::data(data), Some(stream))));
        }
        let trailers = stream.trailers().await?;
        Ok::<_, h2::Error>(trailers.map(|trailers| (Frame::trailers(trailers), None)))
    })))
}

/// Classifies the error of a request that was sent. If the worker did not process it, it reports `REFUSED_STREAM`,
/// or a GOAWAY with a lower stream id.
fn classify_loss(error: h2::Error) -> LinkError {
    let is_refusal = error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if error.is_remote() && is_refusal { LinkError::Refused(error) } else { LinkError::Lost(error) }
}

#[cfg(test)]
impl Link {
    /// Uses `stream` as its connection, regardless of its endpoint.
    pub(crate) async fn use_stream<S>(&self, stream: S) -> Result<(), h2::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let open = handshake(stream, false).await?;
        *self.current.lock() = Some(open);
        Ok(())
    }
}
