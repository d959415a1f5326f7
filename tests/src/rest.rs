//! HTTP/1.1 requests, one connection each, valid or as raw bytes.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt as _, Full};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// The longest that an answer may take, on any machine.
const ANSWERED: Duration = Duration::from_secs(180);

#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The error's code; empty if there is none.
    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }
}

pub async fn send(
    address: SocketAddr,
    method: Method,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Answer {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::builder().method(&method).uri(path).header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let answer = async {
        let response = sender.send_request(request.body(Full::new(body.into())).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Answer { status: parts.status.as_u16(), headers: parts.headers, body }
    };
    // A test that waits forever would keep all others from ending.
    tokio::time::timeout(ANSWERED, answer).await.unwrap_or_else(|_| panic!("no answer to {method} {path}"))
}

/// What a gateway or a worker answers to a scrape.
pub async fn metrics(address: SocketAddr) -> String {
    let answer = send(address, Method::GET, "/metrics", &[], Bytes::new()).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    String::from_utf8(answer.body.to_vec()).unwrap()
}

/// Whether a worker has exactly so many calls, by its own metrics.
pub async fn worker_has(metrics_address: SocketAddr, running: usize, queued: usize) -> bool {
    let text = metrics(metrics_address).await;
    let has = |line: &str| text.lines().any(|it| it == line);
    has(&format!("openskill_worker_calls_running {running}")) && has(&format!("openskill_worker_calls_queued {queued}"))
}

/// Sends bytes as they are and reads until the other side closes.
pub async fn send_raw(address: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).into_owned()
}
