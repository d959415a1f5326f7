//! `GET /metrics` and `GET /healthz` over HTTP, on a listener of their own: the other one speaks gRPC to gateways.
//!
//! A scrape takes nothing from calls: it runs on the thread that reloads skills. Everything is bounded, since whoever reaches
//! the address may connect.

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
use openskill_metrics::text::Format;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use crate::worker::Worker;

/// Connections at a time. Others wait to be accepted.
const MOST_CONNECTIONS: usize = 8;

/// How long a client may take to send its request, and how long all of it may take.
const REQUEST: Duration = Duration::from_secs(5);
const CONNECTION: Duration = Duration::from_secs(30);

/// How long to wait after a connection could not be accepted: there are no descriptors left, say.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves scrapes until it is dropped.
///
/// # Errors
/// The listener can't be registered with this runtime.
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

/// Answers one request, and closes the connection after it.
async fn answer(worker: Arc<Worker>, stream: TcpStream) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| {
        let worker = Arc::clone(&worker);
        async move { Ok::<_, Infallible>(route(worker, request.method(), request.uri().path(), request.headers()).await) }
    });
    let mut server = http1::Builder::new();
    server.timer(TokioTimer::new()).header_read_timeout(REQUEST).keep_alive(false);
    // What fails is the client's connection.
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
            let format = Format::accepted(accepted);
            match tokio::task::spawn_blocking(move || format.encode(&worker.metrics())).await {
                Ok(text) => response(StatusCode::OK, format.content_type(), text.into()),
                Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be read\n"),
            }
        }
        _ => plain(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n"),
    }
}

fn response(status: StatusCode, content_type: &'static str, text: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(content_type));
    response
}
