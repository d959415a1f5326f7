//! One connection to a server, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ElicitationCapability, ErrorData,
    FormElicitationCapability, Implementation, ProtocolVersion, UrlElicitationCapability,
};
#[expect(deprecated, reason = "servers sample and ask for roots, and will for years")]
use rmcp::model::{
    CreateMessageRequestParams, CreateMessageResult, ListRootsResult, RootsCapabilities, SamplingCapability,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RequestContext, RunningService,
};
use rmcp::{ClientHandler, Peer, RoleClient};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::DropGuard;

use super::connect_error::ConnectError;
use super::elicitation::ElicitationRelay;
use super::host::Host;
use super::http_client;
use super::lines::LineTransport;
use super::program::{self, Started};
use super::tapped::{ConnectionSignals, TappedTransport, origin};
use super::words::line;
use crate::manifest::Manifest;
use crate::manifest::mcp::{Mcp, Reach};

/// The part of a connection that calls use.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) signs: Arc<ConnectionSignals>,
    /// One permit for each concurrent call.
    pub(super) capacity: Arc<Semaphore>,
    /// Over HTTP, each request has a separate connection, so a broken one does not affect the others.
    pub(super) over_http: bool,
    /// The maximum number of concurrent calls on this connection.
    pub(super) calls: usize,
    /// Whether the connection accepts no more calls.
    gone: AtomicBool,
    /// Notified when a call found the server unreachable.
    pub(super) lost: Notify,
    /// Notified when the server owes answers to more cancelled calls than it may run at once, or when it refused a
    /// call as if it had lost the session.
    pub(super) needs_ping: Notify,
}

impl Connection {
    /// Stops accepting calls.
    pub(super) fn leave(&self) {
        self.gone.store(true, Ordering::Release);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire) || self.peer.is_transport_closed()
    }
}

/// A new connection, and the resources that end with it.
pub(super) struct Opened {
    pub(super) connection: Arc<Connection>,
    pub(super) service: RunningService<RoleClient, Handler>,
    /// The server's process, if the worker started it.
    pub(super) process: Option<Started>,
    /// Cancels HTTP requests when it is dropped.
    pub(super) requests: Option<DropGuard>,
    /// The server refused the handshake, so it announces changes only to subscribers. The protocol version does
    /// not show this, because some servers repeat the client's version.
    pub(super) is_without_handshake: bool,
}

/// Connects. Retries without a handshake if the server refuses it, as a later protocol revision requires.
///
/// # Errors
/// Returns the reason if the connection fails.
pub(super) async fn open(manifest: &Manifest, mcp: &Mcp, host: &Host) -> Result<Opened, ConnectError> {
    match connect(manifest, mcp, host, ClientLifecycleMode::Initialize).await {
        Err(failure) if failure.is_refusal => {
            let preferred_versions = vec![ProtocolVersion::NO_INITIALIZE];
            let without_handshake = ClientLifecycleMode::Discover { preferred_versions };
            connect(manifest, mcp, host, without_handshake).await.map_err(|_| failure.why)
        }
        connected => connected.map_err(|failure| failure.why),
    }
}

/// A failed handshake, and whether the server refused it.
struct HandshakeFailure {
    why: ConnectError,
    /// Whether the server refused the handshake in its answer.
    is_refusal: bool,
}

impl<T: Into<ConnectError>> From<T> for HandshakeFailure {
    fn from(why: T) -> Self {
        Self { why: why.into(), is_refusal: false }
    }
}

async fn connect(
    manifest: &Manifest,
    mcp: &Mcp,
    host: &Host,
    lifecycle: ClientLifecycleMode,
) -> Result<Opened, HandshakeFailure> {
    let is_without_handshake = matches!(lifecycle, ClientLifecycleMode::Discover { .. });
    let signs = Arc::new(ConnectionSignals::default());
    let handler = Handler { relay: ElicitationRelay::new(Arc::clone(&signs)) };
    let (service, process, requests) = match &mcp.reach {
        Reach::Stdio { .. } => {
            let (mut process, stdin, stdout) = program::start(manifest, mcp, host, signs.given_secrets.clone())?;
            let lines = LineTransport::new(&manifest.id, stdout, stdin, Arc::clone(&signs), &host.redactor);
            let transport = TappedTransport::new(lines, Arc::clone(&signs));
            match in_time(mcp.start, handler.serve_with_lifecycle(transport, lifecycle)).await {
                Ok(service) => (service, Some(process), None),
                Err(failure) if failure.is_refusal => return Err(failure),
                Err(failure) => return Err(process.early_exit().await.map_or(failure, HandshakeFailure::from)),
            }
        }
        Reach::Http { url, headers, allowed } => {
            let (transport, requests) = http_client::transport(url, headers, allowed, mcp.calls)?;
            let transport = TappedTransport::new(transport, Arc::clone(&signs));
            let serving = handler.serve_with_lifecycle(transport, lifecycle);
            (in_time(mcp.start, serving).await?, None, Some(requests))
        }
    };
    let connection = Connection {
        peer: service.peer().clone(),
        signs,
        capacity: Arc::new(Semaphore::new(mcp.calls)),
        over_http: matches!(mcp.reach, Reach::Http { .. }),
        calls: mcp.calls,
        gone: AtomicBool::new(false),
        lost: Notify::new(),
        needs_ping: Notify::new(),
    };
    Ok(Opened { connection: Arc::new(connection), service, process, requests, is_without_handshake })
}

type Serving<F> = Result<F, ClientInitializeError>;

async fn in_time<T>(limit: Duration, handshake: impl Future<Output = Serving<T>>) -> Result<T, HandshakeFailure> {
    match tokio::time::timeout(limit, handshake).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => Err(handshake_failure(&error)),
        Err(_) => Err(format!("it did not answer the handshake within {} s", limit.as_secs()).into()),
    }
}

/// Explains why the handshake failed. Logs the library's text at DEBUG only, because it may contain addresses and
/// bodies.
fn handshake_failure(error: &ClientInitializeError) -> HandshakeFailure {
    tracing::debug!(%error, "the handshake with an MCP server failed");
    match error {
        ClientInitializeError::JsonRpcError(error) => HandshakeFailure {
            why: ConnectError::with_server_text("it refused the handshake", line(&error.message, 200)),
            is_refusal: true,
        },
        ClientInitializeError::ConnectionClosed(_) => "it ended before it answered the handshake".into(),
        _ if error.is_authorization_required() => "it requires a different authorization".into(),
        ClientInitializeError::TransportError { error, .. } => http_client::describe(error.error.as_ref()).into(),
        _ => "its answer to the handshake is invalid".into(),
    }
}

/// The client side of the protocol. Relays requests for elicitation, sampling and roots to the callers.
#[derive(Debug)]
pub(super) struct Handler {
    relay: ElicitationRelay,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("openskill", env!("CARGO_PKG_VERSION"));
        let form = FormElicitationCapability::new().with_schema_validation(true);
        let mut capabilities = ClientCapabilities::default();
        let url = UrlElicitationCapability::new();
        capabilities.elicitation = Some(ElicitationCapability::new().with_form(form).with_url(url));
        capabilities.sampling = Some(SamplingCapability::default());
        capabilities.roots = Some(RootsCapabilities::default());
        ClientConfig::new(capabilities, own)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.relay.answer(request, origin(&context.extensions)).await)
    }

    #[expect(deprecated, reason = "servers sample, and will for years")]
    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.relay.sample(request, origin(&context.extensions)).await
    }

    #[expect(deprecated, reason = "servers ask for roots, and will for years")]
    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.relay.roots(origin(&context.extensions)).await
    }
}
