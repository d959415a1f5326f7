//! One HTTP/2 connection from one shard to one worker, opened on demand and reopened when it is lost.
//!
//! Unlike a tonic channel, its errors say whether a request can have reached the worker: a call that cannot have started may
//! go to another worker. And it hands a request to the connection whole: the request leaves in one write, wakes the worker
//! once, and needs no task of its own.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use h2::{Ping, PingPong};
use http::Uri;
use http_body_util::BodyExt as _;
use openskill_net::local::LocalStream;
use openskill_net::tls::client::Connector;
use openskill_proto::v1::worker_service_client::WorkerServiceClient;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tonic::body::Body;

use super::source::Endpoint;

mod answer;

pub(crate) use answer::Answer;

/// The URI of all requests; the link decides where they go.
pub(super) static ORIGIN: LazyLock<Uri> = LazyLock::new(|| Uri::from_static("http://worker"));

/// How long connecting may take, handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// The interval of keepalive pings, and how long a worker may take to answer one.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

/// The connection.
#[derive(Debug)]
pub(crate) struct Link {
    endpoint: Endpoint,
    /// For an endpoint that is reached over TLS.
    tls: Option<Connector>,
    current: Mutex<Option<Open>>,
    /// Held while connecting, so that concurrent calls open one connection. Holds the last failure and its time.
    connecting: tokio::sync::Mutex<Option<(Instant, String)>>,
}

/// An open connection.
#[derive(Debug, Clone)]
struct Open {
    sender: SendRequest<Bytes>,
    /// It takes no new requests.
    is_closed: Arc<AtomicBool>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The request did not reach the worker.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The worker said that it did not process the request: it shuts down, say.
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

    /// The worker's service over this connection.
    pub(super) fn client(self: &Arc<Self>) -> WorkerServiceClient<Via> {
        WorkerServiceClient::with_origin(Via(Arc::clone(self)), ORIGIN.clone())
    }

    async fn connected(&self) -> Result<Open, LinkError> {
        match self.open() {
            Some(open) => Ok(open),
            // Boxed, so that the future of a call stays small.
            None => Box::pin(self.reconnect()).await,
        }
    }

    async fn reconnect(&self) -> Result<Open, LinkError> {
        let asked = Instant::now();
        let mut last_failure = self.connecting.lock().await;
        if let Some(open) = self.open() {
            return Ok(open);
        }
        // Whoever waited while an attempt failed shares its failure: attempts in turn would take ever longer.
        if let Some((_, reason)) = last_failure.as_ref().filter(|(at, _)| *at >= asked) {
            return Err(LinkError::NotSent(reason.clone()));
        }
        let failure = match tokio::time::timeout(CONNECT_TIMEOUT, self.connect()).await {
            Ok(Ok(open)) => {
                *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(open.clone());
                return Ok(open);
            }
            Ok(Err(error)) => format!("{}: {error}", self.endpoint),
            Err(_) => format!("{}: no connection within {} s", self.endpoint, CONNECT_TIMEOUT.as_secs()),
        };
        *last_failure = Some((Instant::now(), failure.clone()));
        Err(LinkError::NotSent(failure))
    }

    fn open(&self) -> Option<Open> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().filter(|open| !open.is_closed.load(Ordering::Acquire)).cloned()
    }

    async fn connect(&self) -> Result<Open, Box<dyn std::error::Error + Send + Sync>> {
        match &self.endpoint {
            Endpoint::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                Ok(handshake(stream).await?)
            }
            Endpoint::Tls(authority) => {
                let tls =
                    self.tls.as_ref().ok_or("this gateway has no certificate for its workers (OPENSKILL_MESH_CERT)")?;
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                Ok(admitted(tls.connect(stream, authority).await?).await?)
            }
            Endpoint::Unix(path) => {
                let stream = UnixStream::connect(path).await?.into_std()?;
                Ok(handshake(LocalStream::new(stream)?).await?)
            }
        }
    }
}

async fn handshake<S>(stream: S) -> Result<Open, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, mut connection) = begin(stream).await?;
    let pings = connection.ping_pong();
    Ok(opened(sender, connection, pings))
}

/// The same over TLS 1.3, where a client has finished its handshake before the server has looked at its certificate: the
/// first answer says that the worker takes requests. Without it, a call could be lost to a worker that never read it.
async fn admitted<S>(stream: S) -> Result<Open, h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, mut connection) = begin(stream).await?;
    let mut pings = connection.ping_pong();
    if let Some(pings) = &mut pings {
        tokio::select! {
            // First, since its error is the reason why the ping fails.
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
    Ok(opened(sender, connection, pings))
}

async fn begin<S>(stream: S) -> Result<(SendRequest<Bytes>, Connection<S, Bytes>), h2::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(1 << 20)
        .initial_connection_window_size(1 << 24)
        .max_header_list_size(openskill_proto::limits::MAX_HEADER_BYTES)
        .handshake(stream)
        .await
}

fn opened<S>(sender: SendRequest<Bytes>, connection: Connection<S, Bytes>, pings: Option<PingPong>) -> Open
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let is_closed = Arc::new(AtomicBool::new(false));
    tokio::spawn(drive(connection, pings, Arc::clone(&is_closed)));
    Open { sender, is_closed }
}

/// Drives a connection until its last sender is dropped, the worker closes it, or the worker stops answering pings. Requests
/// in flight fail by themselves.
async fn drive<S>(connection: Connection<S, Bytes>, pings: Option<PingPong>, is_closed: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    tokio::select! {
        _ = connection => {}
        () = keepalive_timeout(pings) => {}
    }
    is_closed.store(true, Ordering::Release);
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
    /// Sends a request and waits for the head of its response. Dropping the future, or the response, resets the stream.
    async fn exchange(&self, request: http::Request<Body>) -> Result<http::Response<Answer>, LinkError> {
        let not_sent = |error: h2::Error| LinkError::NotSent(error.to_string());
        let (head, body) = request.into_parts();
        // Our own message: it is in memory already.
        let body = body.collect().await.map_err(|status| LinkError::NotSent(status.message().to_owned()))?.to_bytes();
        let mut sender = self.ready().await?;
        let head = http::Request::from_parts(head, ());
        let (response, mut stream) = sender.send_request(head, false).map_err(not_sent)?;
        // If this fails, so does the response, which knows the reason.
        let _ = stream.send_data(body, true);
        Ok(response.await.map_err(lost)?.map(Answer::new))
    }

    /// The connection, once it takes a request.
    async fn ready(&self) -> Result<SendRequest<Bytes>, LinkError> {
        match self.connected().await?.ready().await {
            // The worker drains, or was replaced: a new connection may reach it.
            Err(_) => self.connected().await?.ready().await,
            ready => ready,
        }
    }
}

impl Open {
    /// Waits until it takes a request; if it never will, marks it as closed.
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
    type Response = http::Response<Answer>;
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

/// A request that was sent may still be unprocessed: the worker says so by `REFUSED_STREAM`, or a GOAWAY below its stream id.
fn lost(error: h2::Error) -> LinkError {
    let is_refusal = error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if error.is_remote() && is_refusal { LinkError::Refused(error) } else { LinkError::Lost(error) }
}

#[cfg(test)]
impl Link {
    /// Uses `stream` as its connection, whatever its endpoint is.
    pub(crate) async fn use_stream<S>(&self, stream: S) -> Result<(), h2::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let open = handshake(stream).await?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        Ok(())
    }
}
