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

use super::asks::Asks;
use super::host::Host;
use super::http_client;
use super::lines::Lines;
use super::program::{self, Started};
use super::tapped::{Signs, Tapped, origin};
use super::why::Why;
use super::words::line;
use crate::manifest::Manifest;
use crate::manifest::mcp::{Mcp, Reach};

/// The part of a connection that calls use.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) signs: Arc<Signs>,
    /// One permit for each call that may run at once.
    pub(super) capacity: Arc<Semaphore>,
    /// Each request has a connection of its own: a broken one says nothing about others.
    pub(super) over_http: bool,
    /// The concurrency limit.
    pub(super) calls: usize,
    /// The connection takes no further calls.
    gone: AtomicBool,
    /// A call found that the server is gone.
    pub(super) lost: Notify,
    /// More abandoned calls wait for their answer than the server may run, or it refused one as if it had lost the session.
    pub(super) doubtful: Notify,
}

impl Connection {
    /// Takes no further calls.
    pub(super) fn leave(&self) {
        self.gone.store(true, Ordering::Release);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire) || self.peer.is_transport_closed()
    }
}

/// A connection, and what ends with it.
pub(super) struct Opened {
    pub(super) connection: Arc<Connection>,
    pub(super) service: RunningService<RoleClient, Handler>,
    /// The server's process, where it is ours.
    pub(super) process: Option<Started>,
    /// Ends requests over HTTP when it is dropped.
    pub(super) requests: Option<DropGuard>,
    /// The server refused the handshake: it announces changes only to those who ask. Its version does not tell, as some
    /// servers repeat the client's.
    pub(super) is_without_handshake: bool,
}

/// Connects. A server that refuses the handshake may be one of the revision that has none.
///
/// # Errors
/// The reason.
pub(super) async fn open(manifest: &Manifest, mcp: &Mcp, host: &Host) -> Result<Opened, Why> {
    match connect(manifest, mcp, host, ClientLifecycleMode::Initialize).await {
        Err(failure) if failure.is_refusal => {
            let preferred_versions = vec![ProtocolVersion::NO_INITIALIZE];
            let without_handshake = ClientLifecycleMode::Discover { preferred_versions };
            connect(manifest, mcp, host, without_handshake).await.map_err(|_| failure.why)
        }
        connected => connected.map_err(|failure| failure.why),
    }
}

/// Why there is no connection.
struct Failure {
    why: Why,
    /// The server answered the handshake, with a refusal.
    is_refusal: bool,
}

impl<T: Into<Why>> From<T> for Failure {
    fn from(why: T) -> Self {
        Self { why: why.into(), is_refusal: false }
    }
}

async fn connect(
    manifest: &Manifest,
    mcp: &Mcp,
    host: &Host,
    lifecycle: ClientLifecycleMode,
) -> Result<Opened, Failure> {
    let is_without_handshake = matches!(lifecycle, ClientLifecycleMode::Discover { .. });
    let signs = Arc::new(Signs::default());
    let handler = Handler { asks: Asks::new(Arc::clone(&signs)) };
    let (service, process, requests) = match &mcp.reach {
        Reach::Stdio { .. } => {
            let (mut process, stdin, stdout) = program::start(manifest, mcp, host, signs.given_secrets.clone())?;
            let lines = Lines::new(&manifest.id, stdout, stdin, Arc::clone(&signs), &host.redactor);
            let transport = Tapped::new(lines, Arc::clone(&signs));
            match in_time(mcp.start, handler.serve_with_lifecycle(transport, lifecycle)).await {
                Ok(service) => (service, Some(process), None),
                Err(failure) if failure.is_refusal => return Err(failure),
                Err(failure) => return Err(process.why().await.map_or(failure, Failure::from)),
            }
        }
        Reach::Http { url, headers, allowed } => {
            let (transport, requests) = http_client::transport(url, headers, allowed, mcp.calls)?;
            let transport = Tapped::new(transport, Arc::clone(&signs));
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
        doubtful: Notify::new(),
    };
    Ok(Opened { connection: Arc::new(connection), service, process, requests, is_without_handshake })
}

type Serving<F> = Result<F, ClientInitializeError>;

async fn in_time<T>(limit: Duration, handshake: impl Future<Output = Serving<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(limit, handshake).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => Err(why(&error)),
        Err(_) => Err(format!("it did not answer the handshake within {} s", limit.as_secs()).into()),
    }
}

/// Why the handshake failed. The library's own text may hold addresses and bodies: it is for the log.
fn why(error: &ClientInitializeError) -> Failure {
    tracing::debug!(%error, "the handshake with an MCP server failed");
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            Failure { why: Why::said("it refused the handshake", line(&error.message, 200)), is_refusal: true }
        }
        ClientInitializeError::ConnectionClosed(_) => "it ended before it answered the handshake".into(),
        _ if error.is_authorization_required() => "it requires another authorization".into(),
        ClientInitializeError::TransportError { error, .. } => http_client::why(error.error.as_ref()).into(),
        _ => "its answer to the handshake is invalid".into(),
    }
}

/// The client side of the protocol: elicitation by forms and URLs, sampling, roots. Callers answer.
#[derive(Debug)]
pub(super) struct Handler {
    asks: Asks,
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
        Ok(self.asks.answer(request, origin(&context.extensions)).await)
    }

    #[expect(deprecated, reason = "servers sample, and will for years")]
    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        self.asks.sample(request, origin(&context.extensions)).await
    }

    #[expect(deprecated, reason = "servers ask for roots, and will for years")]
    async fn list_roots(&self, context: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        self.asks.roots(origin(&context.extensions)).await
    }
}
