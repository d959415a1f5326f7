//! HTTP/1.1, kept alive: a connection for each caller.

use std::net::SocketAddr;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::Failure;
use crate::contenders::TEXT;

/// A connection.
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    address: SocketAddr,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).map_err(|error| error.to_string())?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
        // Ends with its sender; its errors come out of the requests.
        tokio::task::spawn_local(async move {
            let _ = connection.await;
        });
        Ok(Self { sender, address })
    }

    pub(crate) async fn post(&mut self, path: &str, headers: &[(&str, &str)], body: Bytes) -> Result<Answer, String> {
        let mut request = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).map_err(|error| error.to_string())?;
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let answer = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok(Answer { status: parts.status, headers: parts.headers, body })
    }
}

impl Answer {
    /// What it is, cut, for people.
    pub(crate) fn told(&self) -> String {
        let text: String = String::from_utf8_lossy(&self.body).chars().take(200).collect();
        format!("{}: {text}", self.status)
    }

    /// Whether it is a success that holds the text that was sent.
    pub(crate) fn echoes(&self, text: &str) -> Result<(), Failure> {
        let holds = self.body.windows(text.len()).any(|part| part == text.as_bytes());
        match self.status {
            StatusCode::SERVICE_UNAVAILABLE => Err(Failure::Refused),
            status if status.is_success() && holds => Ok(()),
            _ => Err(self.told().into()),
        }
    }
}

/// A caller.
pub(crate) struct Rest {
    connection: Connection,
    path: String,
    body: Bytes,
}

impl Rest {
    pub(crate) async fn connect(address: SocketAddr, path: &str, body: &str) -> Result<Self, String> {
        let connection = Connection::open(address).await?;
        Ok(Self { connection, path: path.to_owned(), body: Bytes::from(body.to_owned()) })
    }

    pub(crate) async fn call(&mut self) -> Result<(), Failure> {
        let answer = self.connection.post(&self.path, &[], self.body.clone()).await?;
        answer.echoes(TEXT)
    }
}
