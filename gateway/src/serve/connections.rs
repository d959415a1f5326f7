//! Accepts connections and enforces their limits. HTTP/1.1 and HTTP/2 on one port, in plain text or over TLS.
//!
//! - [`limiter`]: bounds the number of connections; [`peers`]: bounds the number per peer
//! - [`table`]: the open connections, and which of them to evict; [`suspects`]: peers that get fewer streams
//! - [`handshake`]: negotiates TLS, and detects the protocol of a plain-text connection

use std::convert::Infallible;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use openskill_net::linger::Lingering;
use openskill_net::metered::Metered;
use openskill_net::tls::server::Acceptor;
use openskill_proto::limits::MAX_HEADER_BYTES;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::{Service, ServiceExt as _};

mod handshake;
pub(crate) mod limiter;
mod peer;
pub(crate) mod peers;
mod suspects;
mod table;

use handshake::Protocol;
use limiter::{ConnectionHandle, ConnectionLimiter, ConnectionPermit};
use peer::Peer;

use super::bodies::guarded::guard;

/// The maximum number of concurrent streams on one connection, enough for a busy client.
const MAX_STREAMS: u32 = 1024;

/// The maximum number of concurrent streams for a peer that recently flooded a connection.
const STREAMS_OF_SUSPECT: u32 = 128;

/// How long a client may take to send a request head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval of keepalive pings, and the timeout for an answer.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// The maximum number of streams that a client may reset before they are processed (rapid reset, CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 64;

/// The maximum send buffer of one stream: one piece of a large response. Its bytes no longer count towards a
/// principal.
const MAX_SEND_BUFFER: usize = 64 * 1024;

/// The time between two idle checks. An evicted connection is closed if it is idle at both.
const GOODBYE: Duration = Duration::from_millis(500);

/// The minimum interval between two log lines about refused connections.
const REFUSALS_LOGGED: Duration = Duration::from_secs(10);

/// A socket to accept connections on.
pub(crate) struct TlsListener {
    pub(crate) listener: TcpListener,
    /// Performs TLS handshakes. If None, clients speak plain text.
    pub(crate) tls: Option<Acceptor>,
}

/// Accepts connections until `stop`, then waits until each one has finished its requests. `limiter` bounds their
/// number.
pub(crate) async fn serve<S, B>(
    TlsListener { listener, tls }: TlsListener,
    service: S,
    limiter: Arc<ConnectionLimiter>,
    tasks: TaskTracker,
    stop: CancellationToken,
) -> std::io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: http_body::Body<Error: Into<axum::BoxError>, Data: Send> + Send + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let mut listener = LimitedListener { listener, limiter, refused: 0, logged: None };
    let (connection, connections) = (connection(), TaskTracker::new());
    let serve = |(stream, permit): (TcpStream, ConnectionPermit)| {
        let served = serve_connection(stream, tls.clone(), permit, service.clone(), connection.clone(), tasks.clone());
        connections.spawn(served);
    };
    loop {
        tokio::select! {
            accepted = listener.accept(&stop) => accepted.into_iter().for_each(&serve),
            () = stop.cancelled() => break,
        }
        // Yield, so that a burst of new connections does not starve the open ones.
        tokio::task::yield_now().await;
    }
    // Accept the connections in the backlog first: closing the listener would reset them.
    while let Some(Some(accepted)) = listener.accept(&stop).now_or_never() {
        serve(accepted);
    }
    drop(listener);
    connections.close();
    connections.wait().await;
    Ok(())
}

/// Serves one connection until it ends.
async fn serve_connection<S, B>(
    stream: TcpStream,
    tls: Option<Acceptor>,
    permit: ConnectionPermit,
    service: S,
    mut connection: auto::Builder<TokioExecutor>,
    tasks: TaskTracker,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: http_body::Body<Error: Into<axum::BoxError>, Data: Send> + Send + 'static,
{
    let (handle, counter) = (permit.handle(), permit.handle());
    // A request is in flight from its head to the last byte of its response. Meanwhile, the connection is not idle.
    let service = service_fn(move |request: Request<Incoming>| {
        let (in_flight, response) = (counter.begin(), service.clone().oneshot(request));
        async move { response.await.map(|it| it.map(|body| guard(body, in_flight))) }
    });
    // A connection holds a permit during its handshake, and counts as idle: a new connection may evict it.
    let negotiated = tokio::select! {
        negotiated = tokio::time::timeout(HEAD_TIMEOUT, handshake::negotiate(stream, tls)) => negotiated,
        () = handle.wait_until_evicted() => return,
    };
    let Ok(Some((stream, protocol))) = negotiated else { return };
    let stream = Lingering::new(stream, tasks).holding(permit);
    // Detected here, not by the builder, because with the builder a shutdown before its first read would close the
    // connection unread.
    match protocol {
        Protocol::Http1 => {
            let connection = connection.http1_only();
            drive(connection.serve_connection(TokioIo::new(stream), service), &handle).await;
        }
        Protocol::Http2 => {
            if handle.is_suspect() {
                connection.http2().max_concurrent_streams(STREAMS_OF_SUSPECT);
            }
            let (stream, flooded) = Metered::new(stream);
            drive(connection.http2_only().serve_connection(TokioIo::new(stream), service), &handle).await;
            if flooded.load(Ordering::Relaxed) {
                handle.mark_suspect();
            }
        }
    }
}

/// Runs a connection until it ends. After `handle` signals the end, only finishes its requests. A client's protocol
/// error affects only its own connection.
async fn drive<C>(connection: C, handle: &ConnectionHandle)
where
    C: GracefulConnection<Error: std::fmt::Display>,
{
    let mut connection = pin!(connection);
    tokio::select! {
        // Poll it first, to read requests that the client has already sent.
        biased;
        ended = connection.as_mut() => return log(ended),
        () = handle.connection.end.cancelled() => connection.as_mut().graceful_shutdown(),
    }
    // A client may ignore the shutdown and never finish. Close such a connection once it is idle.
    let overdue = async {
        let mut was_idle = false;
        loop {
            tokio::time::sleep(GOODBYE).await;
            let is_idle = handle.connection.is_evicted() && handle.connection.is_idle();
            // Check twice, so that the response to the last request is sent.
            if is_idle && was_idle {
                break;
            }
            was_idle = is_idle;
        }
    };
    tokio::select! {
        ended = connection => log(ended),
        () = overdue => {}
    }
}

fn log<E: std::fmt::Display>(ended: Result<(), E>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}

/// A listener that admits only as many connections as its limiter allows.
struct LimitedListener {
    listener: tokio::net::TcpListener,
    limiter: Arc<ConnectionLimiter>,
    /// The number of refused connections since the last log line.
    refused: u64,
    logged: Option<tokio::time::Instant>,
}

impl LimitedListener {
    /// Accepts the next connection, once it has a permit. None if accepting failed, or if its peer has too many
    /// connections.
    async fn accept(&mut self, stop: &CancellationToken) -> Option<(TcpStream, ConnectionPermit)> {
        let (stream, address) = match self.listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // If file descriptors have run out, for example, accepting again at once would spin.
                if openskill_telemetry::log::admits("accepting failed") {
                    tracing::warn!(%error, "accepting a connection failed");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                return None;
            }
        };
        let _ = stream.set_nodelay(true);
        let peer = Peer::from_address(address.ip());
        match self.limiter.admit(peer, stop.child_token()).await {
            Ok(permit) => Some((stream, permit)),
            Err(limiter::TooManyConnections) => {
                self.log_refusal(peer);
                None
            }
        }
    }

    /// Counts a refusal, and logs periodically, so that a peer can't flood the log.
    fn log_refusal(&mut self, peer: Peer) {
        self.refused += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= REFUSALS_LOGGED) {
            let refused = self.refused;
            tracing::warn!(%peer, refused, "a peer has too many connections (OPENSKILL_MAX_CONNECTIONS_PER_PEER)");
            (self.refused, self.logged) = (0, Some(tokio::time::Instant::now()));
        }
    }
}

fn connection() -> auto::Builder<TokioExecutor> {
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_headers(100)
        .max_buf_size(MAX_HEADER_BYTES as usize)
        .half_close(false);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_header_list_size(MAX_HEADER_BYTES)
        .max_pending_accept_reset_streams(MAX_PENDING_RESETS)
        .max_local_error_reset_streams(MAX_PENDING_RESETS)
        .max_send_buf_size(MAX_SEND_BUFFER)
        .initial_stream_window_size(256 * 1024)
        .initial_connection_window_size(4 * 1024 * 1024)
        .keep_alive_interval(KEEP_ALIVE.0)
        .keep_alive_timeout(KEEP_ALIVE.1);
    builder
}
