//! Connections: accepting them, and every bound of one. HTTP/1.1 and HTTP/2 without TLS on one port.

use std::convert::Infallible;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use openskill_net::linger::Lingering;
use openskill_proto::limits::MAX_HEADER_BYTES;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::Service;

use super::bodies::outbound::Outbound;

/// Streams one connection may have open: the calls of one busy client.
const MAX_STREAMS: u32 = 1024;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// The interval of keepalive pings, and how long a client may take to answer one.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// Streams a client may reset before they are processed (rapid reset, CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 64;

/// What waits to be sent on one stream.
const MAX_SEND_BUFFER: usize = 256 * 1024;

/// Accepts until `stop`, then lets each connection finish its requests. `connections` bounds their number.
pub(crate) async fn serve<S>(
    listener: TcpListener,
    service: S,
    connections: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
) -> std::io::Result<()>
where
    S: Service<Request<Incoming>, Response = Response<Outbound>, Error = Infallible> + Clone + Send + 'static,
    S::Future: Send,
{
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let graceful = GracefulShutdown::new();
    let connection = connection();
    let serve = |(stream, permit): (TcpStream, OwnedSemaphorePermit)| {
        let service = TowerToHyperService::new(service.clone());
        let (connection, watcher, tasks) = (connection.clone(), graceful.watcher(), tasks.clone());
        tokio::spawn(async move {
            if let Ok(Some(protocol)) = tokio::time::timeout(HEAD_TIMEOUT, detect_protocol(&stream)).await {
                let stream = TokioIo::new(Lingering::new(stream, tasks).with_permit(permit));
                // Detected here and not by the builder: a shutdown before its first read would close the connection unread.
                let connection = match protocol {
                    Protocol::Http1 => connection.http1_only(),
                    Protocol::Http2 => connection.http2_only(),
                };
                let served = connection.serve_connection(stream, service).into_owned();
                // A client's protocol error is answered on its own connection.
                let _ = watcher.watch(served).await;
            }
        });
    };
    loop {
        tokio::select! {
            accepted = accept(&listener, &connections) => accepted.into_iter().for_each(&serve),
            () = stop.cancelled() => break,
        }
    }
    // Connections in the backlog would be reset with what they sent.
    while let Some(Some(accepted)) = accept(&listener, &connections).now_or_never() {
        serve(accepted);
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}

/// The next connection, once the limit allows one. None if accepting it failed.
async fn accept(
    listener: &tokio::net::TcpListener,
    connections: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = Arc::clone(connections).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, permit))
        }
        Err(error) => {
            // Out of descriptors, say: accepting again at once would spin.
            if openskill_log::admits("accepting failed") {
                tracing::warn!(%error, "accepting a connection failed");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

/// The protocol of a connection.
enum Protocol {
    Http1,
    Http2,
}

/// Waits until the client has sent enough to detect its protocol. None if it closed the connection.
async fn detect_protocol(stream: &TcpStream) -> Option<Protocol> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut head = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut head).await {
            Ok(0) | Err(_) => return None,
            // Part of the HTTP/2 preface: the rest is on its way.
            Ok(count) if count < PREFACE.len() && PREFACE.starts_with(&head[..count]) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Ok(count) if count == PREFACE.len() && head == *PREFACE => return Some(Protocol::Http2),
            Ok(_) => return Some(Protocol::Http1),
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
