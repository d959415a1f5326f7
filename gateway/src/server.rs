//! One port for gRPC, reflection, health and REST: connections, and every bound of one.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use openskill_net::linger::Lingering;
use openskill_proto::limits::MAX_HEADER_BYTES;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::face::Face;

/// Streams one connection may have open: the calls of one busy client.
const MAX_STREAMS: u32 = 1024;

/// How long a client may take to send the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A silent client is asked this often whether it lives, and given up after the second.
const KEEP_ALIVE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(10));

/// Streams a client may reset before they were looked at (rapid reset, CVE-2023-44487).
const MAX_PENDING_RESETS: usize = 64;

/// What one connection may have waiting to be sent, for one stream.
const MAX_SEND_BUFFER: usize = 256 * 1024;

/// Accepts until `stop`, then lets the connections finish what they have.
pub(crate) async fn serve(
    listener: TcpListener,
    face: Face,
    connections: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let graceful = GracefulShutdown::new();
    let connection = connection();
    let serve = |(stream, place): (TcpStream, OwnedSemaphorePermit)| {
        let face = face.clone();
        let (connection, watcher, tasks) = (connection.clone(), graceful.watcher(), tasks.clone());
        tokio::spawn(async move {
            if let Ok(Some(protocol)) = tokio::time::timeout(HEAD_TIMEOUT, speaks(&stream)).await {
                let stream = TokioIo::new(Lingering::new(stream, tasks).with_permit(place));
                // Told apart here and not there: a shutdown before the first byte is read would end it unread.
                let connection = match protocol {
                    Protocol::Http1 => connection.http1_only(),
                    Protocol::Http2 => connection.http2_only(),
                };
                let served = connection.serve_connection(stream, face).into_owned();
                // A client's protocol errors are its own; it has heard of them.
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
    // Those that are connected already would be reset with what they sent.
    while let Some(Some(accepted)) = accept(&listener, &connections).now_or_never() {
        serve(accepted);
    }
    drop(listener);
    graceful.shutdown().await;
    Ok(())
}

/// The next connection, once there is a place for it. None if it failed before it was there.
async fn accept(
    listener: &tokio::net::TcpListener,
    connections: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let place = Arc::clone(connections).acquire_owned().await.ok()?;
    match listener.accept().await {
        Ok((stream, _)) => {
            let _ = stream.set_nodelay(true);
            Some((stream, place))
        }
        Err(error) => {
            // Out of descriptors, say: accepting again at once would only spin.
            tracing::warn!(%error, "a connection could not be accepted");
            tokio::time::sleep(Duration::from_millis(50)).await;
            None
        }
    }
}

/// What a client speaks.
enum Protocol {
    Http1,
    Http2,
}

/// Waits until the client has sent enough to tell its protocol. None if it closed.
async fn speaks(stream: &TcpStream) -> Option<Protocol> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    let mut head = [0; PREFACE.len()];
    loop {
        match stream.peek(&mut head).await {
            Ok(0) | Err(_) => return None,
            // A part of HTTP/2's preface: the rest is on its way.
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
