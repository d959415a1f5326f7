//! One connection to a server, from its start to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::model::{ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ErrorData, Implementation};
use rmcp::service::{ClientInitializeError, RequestContext, RunningService};
use rmcp::{ClientHandler, Peer, RoleClient, ServiceExt as _};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::DropGuard;

use super::Host;
use super::asks::Asks;
use super::http_client;
use super::lines::Lines;
use super::program::{self, Started};
use super::tapped::{Signs, Tapped};
use super::words::line;
use crate::manifest::Manifest;
use crate::manifest::mcp::{Mcp, Reach};

/// What calls use of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: Peer<RoleClient>,
    pub(super) signs: Arc<Signs>,
    /// Places for calls.
    pub(super) places: Arc<Semaphore>,
    /// Requests go their own ways: one that breaks says nothing of others.
    pub(super) over_http: bool,
    /// How many places there are.
    pub(super) calls: usize,
    /// The connection takes no call any more.
    gone: AtomicBool,
    /// A call found that the server is not there.
    pub(super) lost: Notify,
    /// More calls were abandoned, and never answered, than the server may run.
    pub(super) overrun: Notify,
}

impl Connection {
    /// No call is to use it any more.
    pub(super) fn leave(&self) {
        self.gone.store(true, Ordering::Release);
    }

    pub(super) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire) || self.peer.is_transport_closed()
    }
}

/// A connection, and what has to be ended with it.
pub(super) struct Opened {
    pub(super) connection: Arc<Connection>,
    pub(super) service: RunningService<RoleClient, Handler>,
    /// The server's process, where it is ours.
    pub(super) process: Option<Started>,
    /// Ends requests over HTTP when it is dropped.
    pub(super) requests: Option<DropGuard>,
}

/// Connects.
///
/// # Errors
/// Why not, for people.
pub(super) async fn open(manifest: &Manifest, mcp: &Mcp, host: &Host) -> Result<Opened, String> {
    let signs = Arc::new(Signs::default());
    let (service, process, requests) = match &mcp.reach {
        Reach::Stdio { program, args } => {
            let (mut process, stdin, stdout) = program::start(manifest, program, args, host)?;
            let transport =
                Tapped::new(Lines::new(&manifest.id, stdout, stdin, Arc::clone(&signs)), Arc::clone(&signs));
            match in_time(mcp.start, Handler::default().serve(transport)).await {
                Ok(service) => (service, Some(process), None),
                Err(reason) => return Err(process.why().await.unwrap_or(reason)),
            }
        }
        Reach::Http { url, headers, allowed } => {
            let (transport, requests) = http_client::transport(url, headers, allowed, mcp.calls)?;
            let transport = Tapped::new(transport, Arc::clone(&signs));
            (in_time(mcp.start, Handler::default().serve(transport)).await?, None, Some(requests))
        }
    };
    let connection = Connection {
        peer: service.peer().clone(),
        signs,
        places: Arc::new(Semaphore::new(mcp.calls)),
        over_http: matches!(mcp.reach, Reach::Http { .. }),
        calls: mcp.calls,
        gone: AtomicBool::new(false),
        lost: Notify::new(),
        overrun: Notify::new(),
    };
    Ok(Opened { connection: Arc::new(connection), service, process, requests })
}

type Serving<F> = Result<F, ClientInitializeError>;

async fn in_time<T>(limit: Duration, handshake: impl Future<Output = Serving<T>>) -> Result<T, String> {
    match tokio::time::timeout(limit, handshake).await {
        Ok(Ok(service)) => Ok(service),
        Ok(Err(error)) => Err(why(&error)),
        Err(_) => Err(format!("it did not answer the handshake within {} s", limit.as_secs())),
    }
}

/// Why there was no handshake. What the library says may hold addresses and bodies: that is for the log.
fn why(error: &ClientInitializeError) -> String {
    tracing::debug!(%error, "no handshake with an MCP server");
    match error {
        ClientInitializeError::JsonRpcError(error) => {
            format!("it refused the handshake: {}", line(&error.message, 200))
        }
        ClientInitializeError::ConnectionClosed(_) => "it ended before it answered the handshake".to_owned(),
        _ if error.is_authorization_required() => "it wants another authorization".to_owned(),
        ClientInitializeError::TransportError { .. } => "it can't be reached".to_owned(),
        _ => "its answer to the handshake is none".to_owned(),
    }
}

/// Our side of the protocol: no roots, no sampling, nobody to ask.
#[derive(Debug, Default)]
pub(super) struct Handler {
    asks: Asks,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("openskill", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), own)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(self.asks.answer(request).await)
    }
}
