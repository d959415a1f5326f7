//! Opens client connections to a gateway, in plain text or over TLS.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tower::Service;

use crate::tls::MaybeTls;
use crate::tls::client::Connector;

/// A client connection.
pub type Dialed = TokioIo<MaybeTls<TlsStream<TcpStream>>>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Connects to the host and port of a URI. The channel sets the timeout.
#[derive(Debug, Clone)]
pub struct Dial {
    /// Performs the handshakes. `None` for plain text.
    pub tls: Option<Connector>,
}

impl Service<Uri> for Dial {
    type Response = Dialed;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Dialed, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let tls = self.tls.clone();
        Box::pin(async move {
            let host = uri.host().ok_or("the URL has no host")?;
            let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
            let port = uri.port_u16().ok_or("the URL has no port")?;
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            Ok(TokioIo::new(match tls {
                Some(tls) => MaybeTls::Right(Box::new(tls.connect(stream, host).await?)),
                None => MaybeTls::Left(stream),
            }))
        })
    }
}
