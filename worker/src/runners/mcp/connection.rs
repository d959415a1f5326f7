//! One connection to a server, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::ProtocolVersion;
use rmcp::service::{ClientInitializeError, ClientLifecycleMode, ClientServiceExt as _, RunningService};
use rmcp::{Peer, RoleClient};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::connect_error::ConnectError;
use super::elicitation::Handler;
use super::http_client;
use super::lines::LineTransport;
use super::program::{self, Host, ServerProcess};
use super::tapped::{ConnectionSignals, TappedTransport};
use super::texts::line;
use crate::manifest::Manifest;
use crate::manifest::mcp::{Mcp, Reach};

/// How long calls may continue to run when their server is replaced.
const RETIREMENT: Duration = Duration::from_secs(5);

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

    /// Waits at most [`RETIREMENT`] for running calls, or until `at_once` is cancelled.
    pub(super) async fn retire(&self, at_once: &CancellationToken) {
        let all = u32::try_from(self.calls).unwrap_or(u32::MAX);
        let idle = tokio::time::timeout(RETIREMENT, self.capacity.acquire_many(all));
        let _ = at_once.run_until_cancelled(idle).await;
    }
}

/// A new connection, and the resources that end with it.
pub(super) struct OpenConnection {
    pub(super) connection: Arc<Connection>,
    pub(super) service: RunningService<RoleClient, Handler>,
    /// The server's process, if the worker started it.
    pub(super) process: Option<ServerProcess>,
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
pub(super) async fn open(manifest: &Manifest, mcp: &Mcp, host: &Host) -> Result<OpenConnection, ConnectError> {
    match connect(manifest, mcp, host, ClientLifecycleMode::Initialize).await {
        Err(why) if why.is_refusal => {
            let preferred_versions = vec![ProtocolVersion::NO_INITIALIZE];
            let without_handshake = ClientLifecycleMode::Discover { preferred_versions };
            connect(manifest, mcp, host, without_handshake).await.map_err(|_| why)
        }
        connected => connected,
    }
}

async fn connect(
    manifest: &Manifest,
    mcp: &Mcp,
    host: &Host,
    lifecycle: ClientLifecycleMode,
) -> Result<OpenConnection, ConnectError> {
    let is_without_handshake = matches!(lifecycle, ClientLifecycleMode::Discover { .. });
    let signs = Arc::new(ConnectionSignals::default());
    let handler = Handler { signs: Arc::clone(&signs) };
    let (service, process, requests) = match &mcp.reach {
        Reach::Stdio { .. } => {
            let (mut process, stdin, stdout) = program::start(manifest, mcp, host, signs.given_secrets.clone())?;
            let inner = LineTransport::new(&manifest.id, stdout, stdin, Arc::clone(&signs), &host.redactor);
            let transport = TappedTransport { inner, signs: Arc::clone(&signs) };
            match in_time(mcp.start, handler.serve_with_lifecycle(transport, lifecycle)).await {
                Ok(service) => (service, Some(process), None),
                Err(why) if why.is_refusal => return Err(why),
                Err(why) => return Err(process.early_exit().await.map_or(why, ConnectError::from)),
            }
        }
        Reach::Http { url, headers, allowed } => {
            let (inner, requests) =
                http_client::transport(url, headers, allowed, mcp.calls, host.services.environment.variables())?;
            let transport = TappedTransport { inner, signs: Arc::clone(&signs) };
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
    Ok(OpenConnection { connection: Arc::new(connection), service, process, requests, is_without_handshake })
}

async fn in_time<T>(
    limit: Duration,
    handshake: impl Future<Output = Result<T, ClientInitializeError>>,
) -> Result<T, ConnectError> {
    match tokio::time::timeout(limit, handshake).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => Err(handshake_failure(&error)),
        Err(_) => Err(format!("it did not answer the handshake within {} s", limit.as_secs()).into()),
    }
}

/// Explains why the handshake failed. Logs the library's text at DEBUG only, because it may contain addresses and
/// bodies.
fn handshake_failure(error: &ClientInitializeError) -> ConnectError {
    tracing::debug!(%error, "the handshake with an MCP server failed");
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            ConnectError::refusal("it refused the handshake", line(&error.message, 200))
        }
        ClientInitializeError::ConnectionClosed(_) => "it ended before it answered the handshake".into(),
        _ if error.is_authorization_required() => "it requires a different authorization".into(),
        ClientInitializeError::TransportError { error, .. } => http_client::describe(error.error.as_ref()).into(),
        _ => "its answer to the handshake is invalid".into(),
    }
}
