//! One HTTP/2 connection from one shard to one worker, made when it is needed and again when it was lost.
//!
//! What sets it apart from a ready-made channel: its errors say whether a request can have reached the worker. A call
//! that cannot have started may go elsewhere. And a request is handed to the connection whole: it goes out in one write,
//! wakes the worker once, and takes no task of its own.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use h2::{Ping, PingPong};
use http_body_util::BodyExt as _;
use openskill_net::local::LocalStream;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tonic::body::Body;

use super::source::Endpoint;

mod answer;

pub(crate) use answer::Answer;

/// How long connecting may take, handshake included.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// A silent worker is asked this often whether it lives, and given up after the second.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(5), Duration::from_secs(3));

/// The connection.
#[derive(Debug)]
pub(crate) struct Link {
    endpoint: Endpoint,
    current: Mutex<Option<Open>>,
    /// Held while connecting, so that many calls at once make one connection. Holds the last failure and its time.
    connecting: tokio::sync::Mutex<Option<(Instant, String)>>,
}

/// A connection that was made.
#[derive(Debug, Clone)]
struct Open {
    sender: SendRequest<Bytes>,
    /// It takes no new requests.
    is_over: Arc<AtomicBool>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    /// The request did not reach the worker.
    #[error("not sent: {0}")]
    NotSent(String),
    /// The worker said that it did not look at the request: it is being shut down, say.
    #[error("refused: {0}")]
    Refused(#[source] h2::Error),
    /// The request may have reached the worker.
    #[error("lost: {0}")]
    Lost(#[source] h2::Error),
}

impl Link {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        Self { endpoint, current: Mutex::default(), connecting: tokio::sync::Mutex::default() }
    }

    async fn connected(&self) -> Result<Open, LinkError> {
        match self.open() {
            Some(open) => Ok(open),
            // Boxed, so that a call does not hold room for it.
            None => Box::pin(self.connect_anew()).await,
        }
    }

    async fn connect_anew(&self) -> Result<Open, LinkError> {
        let asked = Instant::now();
        let mut last_failure = self.connecting.lock().await;
        if let Some(open) = self.open() {
            return Ok(open);
        }
        // Who waited while a try failed takes its failure: in turn, they would wait for ever longer.
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
        current.as_ref().filter(|open| !open.is_over.load(Ordering::Acquire)).cloned()
    }

    async fn connect(&self) -> Result<Open, Box<dyn std::error::Error + Send + Sync>> {
        match &self.endpoint {
            Endpoint::Tcp(authority) => {
                let stream = TcpStream::connect(authority).await?;
                stream.set_nodelay(true)?;
                Ok(handshake(stream).await?)
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
    let (sender, connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(1 << 20)
        .initial_connection_window_size(1 << 24)
        .max_header_list_size(openskill_proto::limits::MAX_HEADER_BYTES)
        .handshake(stream)
        .await?;
    let is_over = Arc::new(AtomicBool::new(false));
    tokio::spawn(drive(connection, Arc::clone(&is_over)));
    Ok(Open { sender, is_over })
}

/// Runs a connection to its end: the last sender's, the worker's, or when the worker is silent. Requests under way hear of it
/// by themselves.
async fn drive<S>(mut connection: Connection<S, Bytes>, is_over: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let pings = connection.ping_pong();
    tokio::select! {
        _ = connection => {}
        () = silence(pings) => {}
    }
    is_over.store(true, Ordering::Release);
}

/// Ends when the worker does not answer.
async fn silence(pings: Option<PingPong>) {
    let Some(mut pings) = pings else { return std::future::pending().await };
    loop {
        tokio::time::sleep(KEEP_ALIVE.0).await;
        if !matches!(tokio::time::timeout(KEEP_ALIVE.1, pings.ping(Ping::opaque())).await, Ok(Ok(_))) {
            return;
        }
    }
}

impl Link {
    /// Sends a request and waits for the head of its answer. Dropping the future, or the answer, resets the stream.
    async fn exchange(&self, request: http::Request<Body>) -> Result<http::Response<Answer>, LinkError> {
        let not_sent = |error: h2::Error| LinkError::NotSent(error.to_string());
        let (head, body) = request.into_parts();
        // A message of our own: it is in memory already.
        let body = body.collect().await.map_err(|status| LinkError::NotSent(status.message().to_owned()))?.to_bytes();
        let mut sender = self.ready().await?;
        let head = http::Request::from_parts(head, ());
        let (response, mut stream) = sender.send_request(head, false).map_err(not_sent)?;
        // Should this fail, so does the response, and knows better why.
        let _ = stream.send_data(body, true);
        Ok(response.await.map_err(lost)?.map(Answer::new))
    }

    /// The connection, when it takes a request.
    async fn ready(&self) -> Result<SendRequest<Bytes>, LinkError> {
        match self.connected().await?.ready().await {
            // The worker drains, or is another one by now: a new connection may reach it.
            Err(_) => self.connected().await?.ready().await,
            ready => ready,
        }
    }
}

impl Open {
    /// Waits until it takes a request; if it does not any more, nobody else is to try.
    async fn ready(self) -> Result<SendRequest<Bytes>, LinkError> {
        self.sender.ready().await.map_err(|error| {
            self.is_over.store(true, Ordering::Release);
            LinkError::NotSent(error.to_string())
        })
    }
}

/// A link as a service, for the generated client.
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

/// A request that was handed over: the worker may say that it did not look at it, by `REFUSED_STREAM`, or a GOAWAY that leaves
/// it out.
fn lost(error: h2::Error) -> LinkError {
    let is_refusal = error.is_go_away() || error.reason() == Some(h2::Reason::REFUSED_STREAM);
    if error.is_remote() && is_refusal { LinkError::Refused(error) } else { LinkError::Lost(error) }
}

#[cfg(test)]
impl Link {
    /// Goes over `stream`, whatever its endpoint is.
    pub(crate) async fn go_over<S>(&self, stream: S) -> Result<(), h2::Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let open = handshake(stream).await?;
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(open);
        Ok(())
    }
}
