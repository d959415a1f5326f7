//! Opens connections to a gateway for a client's channel: `http` in plain text, `https` over TLS.

use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tower::Service;

use crate::tls::client::Connector;
use crate::tls::stream::MaybeTls;

/// A connection of a client.
pub type Dialed = TokioIo<MaybeTls<TcpStream, TlsStream<TcpStream>>>;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Connects to the host of a URI. The channel bounds the time.
#[derive(Debug, Clone)]
pub struct Dial {
    tls: Option<Connector>,
}

impl Dial {
    /// `tls`: for `https` URIs. None: they are refused.
    pub fn new(tls: Option<Connector>) -> Self {
        Self { tls }
    }
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
            let is_https = uri.scheme_str() == Some("https");
            let host = uri.host().ok_or("the URL has no host")?;
            let host = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
            let port = uri.port_u16().unwrap_or(if is_https { 443 } else { 80 });
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            if !is_https {
                return Ok(TokioIo::new(MaybeTls::Plain(stream)));
            }
            let tls = tls.ok_or("this client has no settings of TLS")?;
            let stream = tls.connect(stream, host).await?;
            Ok(TokioIo::new(MaybeTls::Tls(Box::new(stream))))
        })
    }
}
