//! One connection to the gateway, made on demand and again after it was lost.
//!
//! Unlike tonic's channel, its errors tell whether a request can have reached the gateway, and it can be closed at a
//! chosen moment.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use openskill_proto::v1::admin_service_client::AdminServiceClient;
use openskill_proto::v1::skill_service_client::SkillServiceClient;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tonic::body::Body;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Link {
    address: SocketAddr,
    current: Mutex<Option<Open>>,
    /// Held while connecting, so that concurrent calls make one connection.
    connecting: tokio::sync::Mutex<()>,
}

/// A connection, which closes after its last call once it is dropped.
#[derive(Debug)]
struct Open {
    sender: SendRequest<Body>,
    _connection: JoinSet<()>,
}

/// Why a request got no answer.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// The request did not reach the gateway.
    NotSent(String),
    /// The request may have reached the gateway.
    Lost(String),
}

impl std::fmt::Display for LinkError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotSent(reason) => write!(f, "not sent: {reason}"),
            Self::Lost(reason) => write!(f, "lost: {reason}"),
        }
    }
}

impl std::error::Error for LinkError {}

impl Link {
    pub(crate) fn new(address: SocketAddr) -> Arc<Self> {
        Arc::new(Self { address, current: Mutex::default(), connecting: tokio::sync::Mutex::default() })
    }

    pub(crate) fn skills(self: &Arc<Self>) -> SkillServiceClient<Via> {
        SkillServiceClient::with_origin(Via(Arc::clone(self)), self.origin()).max_decoding_message_size(64 << 20)
    }

    pub(crate) fn admin(self: &Arc<Self>) -> AdminServiceClient<Via> {
        AdminServiceClient::with_origin(Via(Arc::clone(self)), self.origin())
    }

    fn origin(&self) -> http::Uri {
        format!("http://{}", self.address).parse().expect("an address makes a URI")
    }

    /// Closes the connection as soon as it has no call.
    pub(crate) fn close(&self) {
        self.current.lock().unwrap().take();
    }

    async fn sender(&self) -> Result<SendRequest<Body>, LinkError> {
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        let _turn = self.connecting.lock().await;
        if let Some(sender) = self.open() {
            return Ok(sender);
        }
        match tokio::time::timeout(CONNECT_TIMEOUT, connect(self.address)).await {
            Ok(Ok(open)) => {
                let sender = open.sender.clone();
                *self.current.lock().unwrap() = Some(open);
                Ok(sender)
            }
            Ok(Err(error)) => Err(LinkError::NotSent(error.to_string())),
            Err(_) => Err(LinkError::NotSent("no connection in time".to_owned())),
        }
    }

    fn open(&self) -> Option<SendRequest<Body>> {
        let current = self.current.lock().unwrap();
        current.as_ref().map(|open| open.sender.clone()).filter(|sender| !sender.is_closed())
    }
}

async fn connect(address: SocketAddr) -> Result<Open, Box<dyn std::error::Error + Send + Sync>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
    let mut task = JoinSet::new();
    // Each request reports the error itself.
    task.spawn(async move {
        let _ = connection.await;
    });
    Ok(Open { sender, _connection: task })
}

/// A link as a service, for the generated clients.
#[derive(Debug, Clone)]
pub(crate) struct Via(Arc<Link>);

impl tonic::codegen::Service<http::Request<Body>> for Via {
    type Response = http::Response<Incoming>;
    type Error = LinkError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, LinkError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), LinkError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let link = Arc::clone(&self.0);
        Box::pin(async move {
            let mut sender = link.sender().await?;
            sender.try_send_request(request).await.map_err(|mut error| {
                let unsent = error.take_message().is_some();
                let reason = error.into_error().to_string();
                if unsent { LinkError::NotSent(reason) } else { LinkError::Lost(reason) }
            })
        })
    }
}
