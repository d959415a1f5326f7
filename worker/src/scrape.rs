//! Serves `GET /metrics` and `GET /healthz` over HTTP, on a separate listener. The main one serves gRPC to
//! gateways.
//!
//! A scrape does not slow down calls, because it runs on the thread that reloads skills. Everything is limited,
//! because any client that reaches the address can connect.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use openskill_telemetry::metrics::text::Format;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::worker::Worker;

/// The maximum number of concurrent connections. Others wait until they are accepted.
const MOST_CONNECTIONS: usize = 8;

/// The timeouts for a client's request and for the whole exchange.
const REQUEST: Duration = Duration::from_secs(5);
const CONNECTION: Duration = Duration::from_secs(30);

/// The pause after a connection could not be accepted, for example for lack of descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves scrapes until the future is dropped.
///
/// # Errors
/// Fails if the listener can't be registered with this runtime.
pub(crate) async fn serve(worker: Arc<Worker>, listener: std::net::TcpListener) -> std::io::Result<Infallible> {
    let listener = TcpListener::from_std(listener)?;
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut connections = tokio::task::JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        // The semaphore is never closed.
        let place = Arc::clone(&places).acquire_owned().await.ok();
        match listener.accept().await {
            Ok((stream, _)) => {
                let worker = Arc::clone(&worker);
                connections.spawn(async move {
                    let _ = tokio::time::timeout(CONNECTION, answer(worker, stream)).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// Answers one request, and then closes the connection.
async fn answer(worker: Arc<Worker>, stream: TcpStream) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let worker = Arc::clone(&worker);
        async move { Ok::<_, Infallible>(route(worker, request.method(), request.uri().path(), request.headers()).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST).keep_alive(false);
    // Errors affect only this client's connection.
    let _ = server.serve_connection(TokioIo::new(stream), service).await;
}

async fn route(worker: Arc<Worker>, method: &Method, path: &str, headers: &HeaderMap) -> Response<Full<Bytes>> {
    let plain = |status: StatusCode, text: &'static str| response(status, "text/plain", text.into());
    match path {
        "/metrics" | "/healthz" if method != Method::GET && method != Method::HEAD => {
            plain(StatusCode::METHOD_NOT_ALLOWED, "use GET\n")
        }
        "/healthz" if worker.is_draining() => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        "/healthz" => plain(StatusCode::OK, "ok\n"),
        "/metrics" => {
            let accepted = headers.get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
            let format = Format::from_accept(accepted);
            match tokio::task::spawn_blocking(move || format.encode(&worker.metrics())).await {
                Ok(text) => response(StatusCode::OK, format.content_type(), text.into()),
                Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be read\n"),
            }
        }
        _ => plain(StatusCode::NOT_FOUND, "only /metrics and /healthz are served\n"),
    }
}

fn response(status: StatusCode, content_type: &'static str, text: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
