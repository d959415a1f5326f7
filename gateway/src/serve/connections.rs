//! Connections: accepting them, and every bound of one. HTTP/1.1 and HTTP/2 on one port, in plain text or over
//! TLS.
//!
//! - [`roster`]: who is connected, and who has to make room; [`peers`]: how many connections a peer may have
//! - [`members`]: whose place a newcomer gets; [`busy`]: which connections have requests in flight; [`suspects`]: who may
//!   have fewer streams
//! - [`greeting`]: the handshake; [`protocol`]: which protocol they speak

use std::convert::Infallible;
use std::net::TcpListener;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulConnection;
use hyper_util::service::TowerToHyperService;
use openskill_net::linger::Lingering;
use openskill_net::metered::Metered;
use openskill_net::tls::server::Acceptor;
use openskill_proto::limits::MAX_HEADER_BYTES;
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

mod busy;
mod greeting;
mod members;
mod peer;
pub(crate) mod peers;
mod protocol;
pub(crate) mod roster;
mod suspects;

use busy::BusyService;
use peer::Peer;
use protocol::Protocol;
use roster::{Connected, Place, Roster};

/// Streams one connection may have open: the calls of one busy client.
const MAX_STREAMS: u32 = 1024;

/// The same for a peer that flooded a connection lately.
const STREAMS_OF_SUSPECT: u32 = 128;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval of keepalive pings, and how long a client may take to answer one.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// Streams a client may reset before they are processed (rapid reset, CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 64;

/// What waits to be sent on one stream, and counts to no principal any more: one piece of a large response.
const MAX_SEND_BUFFER: usize = 64 * 1024;

/// A connection that makes room is closed if it is idle twice, so far apart.
const GOODBYE: Duration = Duration::from_millis(500);

/// How often refused connections are logged.
const REFUSALS_LOGGED: Duration = Duration::from_secs(10);

/// Accepts until `stop`, then lets each connection finish its requests. `roster` bounds their number. `tls`: none means plain
/// text.
pub(crate) async fn serve<S, B>(
    (listener, tls): (TcpListener, Option<Acceptor>),
    service: S,
    roster: Arc<Roster>,
    tasks: TaskTracker,
    stop: CancellationToken,
) -> std::io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: http_body::Body<Error: Into<axum::BoxError>, Data: Send> + Send + 'static,
{
    let mut door =
        Door { listener: tokio::net::TcpListener::from_std(listener)?, roster, refusals: Refusals::default() };
    let (connection, connections) = (connection(), TaskTracker::new());
    let serve = |(stream, place): (TcpStream, Place)| {
        let service = BusyService { inner: service.clone(), connected: place.connected() };
        connections.spawn(one((stream, tls.clone()), place, service, connection.clone(), tasks.clone()));
    };
    loop {
        tokio::select! {
            accepted = door.accept(&stop) => accepted.into_iter().for_each(&serve),
            () = stop.cancelled() => break,
        }
        // A burst of new connections must not starve the open ones.
        tokio::task::yield_now().await;
    }
    // Connections in the backlog would be reset with what they sent.
    while let Some(Some(accepted)) = door.accept(&stop).now_or_never() {
        serve(accepted);
    }
    drop(door);
    connections.close();
    connections.wait().await;
    Ok(())
}

/// Serves one connection to its end.
async fn one<S, B>(
    (stream, tls): (TcpStream, Option<Acceptor>),
    place: Place,
    service: BusyService<S>,
    mut connection: auto::Builder<TokioExecutor>,
    tasks: TaskTracker,
) where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
    B: http_body::Body<Error: Into<axum::BoxError>, Data: Send> + Send + 'static,
{
    let (connected, service) = (place.connected(), TowerToHyperService::new(service));
    // Whoever never gets through it has a place, and counts as idle: a newcomer may get that place.
    let greeted = tokio::select! {
        greeted = tokio::time::timeout(HEAD_TIMEOUT, greeting::greet(stream, tls)) => greeted,
        () = connected.evicted() => return,
    };
    let Ok(Some((stream, protocol))) = greeted else { return };
    let stream = Lingering::new(stream, tasks).holding(place);
    // Detected here and not by the builder: a shutdown before its first read would close the connection unread.
    match protocol {
        Protocol::Http1 => {
            let connection = connection.http1_only();
            drive(connection.serve_connection(TokioIo::new(stream), service), &connected).await;
        }
        Protocol::Http2 => {
            if connected.is_suspect() {
                connection.http2().max_concurrent_streams(STREAMS_OF_SUSPECT);
            }
            let (stream, flooded) = Metered::new(stream);
            drive(connection.http2_only().serve_connection(TokioIo::new(stream), service), &connected).await;
            if flooded.load(Ordering::Relaxed) {
                connected.suspect();
            }
        }
    }
}

/// Runs a connection until it ends, or has finished its requests after it was told to end. A client's protocol error is
/// answered on its own connection.
async fn drive<C>(connection: C, connected: &Connected)
where
    C: GracefulConnection<Error: std::fmt::Display>,
{
    let mut connection = pin!(connection);
    tokio::select! {
        // First, so that what a client has sent already is read.
        biased;
        ended = connection.as_mut() => return log(ended),
        () = connected.end().cancelled() => connection.as_mut().graceful_shutdown(),
    }
    // A client may not answer, and so never finish; then an idle connection is closed.
    let overdue = async {
        let mut was_idle = false;
        loop {
            tokio::time::sleep(GOODBYE).await;
            let is_idle = connected.is_evicted() && connected.is_idle();
            // Twice, so that the response to a last request gets out.
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

/// A listener, with its admission of connections.
struct Door {
    listener: tokio::net::TcpListener,
    roster: Arc<Roster>,
    refusals: Refusals,
}

impl Door {
    /// The next connection, once there is a place for it. None if there is not one.
    async fn accept(&mut self, stop: &CancellationToken) -> Option<(TcpStream, Place)> {
        let (stream, address) = match self.listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, say: accepting again at once would spin.
                if openskill_log::admits("accepting failed") {
                    tracing::warn!(%error, "accepting a connection failed");
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
                return None;
            }
        };
        let _ = stream.set_nodelay(true);
        let peer = Peer::of(address.ip());
        match self.roster.admit(peer, stop.child_token()).await {
            Ok(place) => Some((stream, place)),
            Err(roster::TooMany) => {
                self.refusals.count(peer);
                None
            }
        }
    }
}

/// Connections that were refused since the last log line.
#[derive(Default)]
struct Refusals {
    count: u64,
    logged: Option<tokio::time::Instant>,
}

impl Refusals {
    /// Logs now and then, whatever a peer does.
    fn count(&mut self, peer: Peer) {
        self.count += 1;
        if self.logged.is_none_or(|at| at.elapsed() >= REFUSALS_LOGGED) {
            let refused = self.count;
            tracing::warn!(%peer, refused, "a peer has too many connections (OPENSKILL_MAX_CONNECTIONS_PER_PEER)");
            (self.count, self.logged) = (0, Some(tokio::time::Instant::now()));
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
