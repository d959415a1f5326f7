//! Keeps one connection to a server up: connects, watches it, and reconnects with backoff.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::FusedFuture as _;
use rmcp::model::{ClientRequest, PingRequest, SubscriptionFilter};
use rmcp::service::Subscription;
use rmcp::{Peer, RoleClient};

use super::catalog::Catalog;
use super::connect_error::ConnectError;
use super::connection::{Connection, OpenConnection, open};
use super::program::ServerProcess;
use super::resources;
use super::server::Server;

/// The backoff before reconnecting. It doubles with each failure, from the first to the longest pause.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A connection that lasted this long resets the backoff.
const HEALTHY: Duration = Duration::from_secs(60);

/// The timeout for a server to exit when stopped, and to deliver its last answers after its connection ended.
const GOODBYE: Duration = Duration::from_millis(500);

/// The timeout for a ping to a server with many unanswered requests.
const PULSE: Duration = Duration::from_secs(5);

/// Servers announce several changes at once, so wait this long to read them together.
const SETTLE: Duration = Duration::from_millis(50);

/// The minimum interval between two listings of a server's tools.
const CHANGES: Duration = Duration::from_secs(1);

/// How a connection ended.
enum ConnectionEnd {
    /// The connection broke or could not be established.
    Lost(ConnectError),
    /// The server was stopped.
    Stopped,
}

/// Starts all lanes of a server. Must be called within a runtime that lives as long as the worker.
pub(super) fn start_all(server: &Arc<Server>) {
    for index in 0..server.lanes.len() {
        server.tasks.spawn(keep(Arc::clone(server), index));
    }
}

/// Keeps the server's connection with this index up until the server is stopped.
async fn keep(server: Arc<Server>, index: usize) {
    let mut pause = FIRST_PAUSE;
    loop {
        let begun = Instant::now();
        let end = live(&server, index).await;
        server.leave(index);
        let reason = match end {
            ConnectionEnd::Stopped => return,
            ConnectionEnd::Lost(reason) => reason,
        };
        if begun.elapsed() >= HEALTHY {
            pause = FIRST_PAUSE;
        }
        if openskill_telemetry::log::admits("an MCP server is unavailable") {
            let (ours, said_bytes) = (server.secrets.scrub_text(reason.ours().to_owned()), reason.said_bytes());
            let pause_ms = pause.as_millis() as u64;
            tracing::warn!(
                server = server.manifest.id,
                reason = ours,
                said_bytes,
                pause_ms,
                "an MCP server is unavailable"
            );
        }
        server.down(index, reason.to_string(), Instant::now() + pause);
        tokio::select! {
            () = server.stop.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Runs one connection from its start to its end.
async fn live(server: &Server, index: usize) -> ConnectionEnd {
    let host = &server.host;
    let connect = async {
        let mut opened = open(&server.manifest, &server.mcp, host).await?;
        match (Catalog::ask(&opened.connection.peer).await, &mut opened.process) {
            (Ok(catalog), _) => Ok::<_, ConnectError>((opened, catalog)),
            (Err(reason), Some(process)) => Err(process.early_exit().await.map_or(reason, ConnectError::from)),
            (Err(reason), None) => Err(reason),
        }
    };
    let (opened, catalog) = tokio::select! {
        () = server.stop.cancelled() => return ConnectionEnd::Stopped,
        connected = connect => match connected {
            Ok(connected) => connected,
            Err(reason) => return ConnectionEnd::Lost(reason),
        },
    };
    if openskill_telemetry::log::admits("an MCP server is up") {
        tracing::info!(server = server.manifest.id, tools = catalog.tools.len(), "an MCP server is up");
    }
    resources::subscribe_again(server, &opened.connection.peer).await;
    // Dropping the subscription ends it.
    let _changes = if opened.is_without_handshake { listen(&opened.connection.peer).await } else { None };
    server.set_up(index, &opened.connection, catalog);
    watch(server, index, opened).await
}

/// Subscribes to the server's change notifications.
async fn listen(peer: &Peer<RoleClient>) -> Option<Subscription> {
    let all = SubscriptionFilter::builder().tools_list_changed().prompts_list_changed().resources_list_changed();
    tokio::time::timeout(PULSE, peer.listen(all.build())).await.ok()?.ok()
}

/// Watches the connection until it ends, and returns the reason.
async fn watch(server: &Server, index: usize, opened: OpenConnection) -> ConnectionEnd {
    let OpenConnection { connection, service, mut process, requests: _requests, .. } = opened;
    let goodbye = service.cancellation_token();
    let mut serving = Box::pin(service.waiting().fuse());
    let end = tokio::select! {
        _ = &mut serving => ConnectionEnd::Lost(exit_or_closed(process.as_mut()).await.into()),
        reason = exit(process.as_mut()) => {
            // The server's last answers are still in the pipe.
            let _ = tokio::time::timeout(GOODBYE, &mut serving).await;
            ConnectionEnd::Lost(reason.into())
        }
        reason = failure(&connection) => {
            server.leave(index);
            // One call found the server unreachable or silent. The others may still get their answers.
            connection.retire(&server.stop).await;
            ConnectionEnd::Lost(reason.into())
        }
        never = follow_lists(server, &connection) => never,
        never = follow_resources(server, &connection) => never,
        () = server.stop.cancelled() => ConnectionEnd::Stopped,
    };
    server.leave(index);
    // This closes a process's standard input, or ends a session over HTTP.
    goodbye.cancel();
    let orderly = async {
        if !serving.is_terminated() {
            let _ = tokio::time::timeout(GOODBYE, &mut serving).await;
        }
        if matches!(end, ConnectionEnd::Stopped) && process.is_some() {
            let _ = tokio::time::timeout(GOODBYE, exit(process.as_mut())).await;
        }
    };
    orderly.await;
    end
}

/// Waits until a call finds the server unreachable or a ping is not answered. Returns the reason.
async fn failure(connection: &Connection) -> &'static str {
    // A server need not answer cancelled calls, and one refused call proves little. A ping shows whether the server
    // still answers.
    let silence = async {
        loop {
            connection.needs_ping.notified().await;
            let ping = connection.peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
            // An error is also an answer.
            if !matches!(tokio::time::timeout(PULSE, ping).await, Ok(Ok(_) | Err(rmcp::ServiceError::McpError(_)))) {
                break;
            }
        }
    };
    tokio::select! {
        () = connection.lost.notified() => "it cannot be reached",
        () = silence => "it no longer answers",
    }
}

/// Lists the server's tools again whenever it announces changes. Never returns.
async fn follow_lists(server: &Server, connection: &Connection) -> ConnectionEnd {
    let mut listed = None::<Instant>;
    loop {
        connection.signs.tools_changed.notified().await;
        let rest = listed.map_or(Duration::ZERO, |before| CHANGES.saturating_sub(before.elapsed()));
        tokio::time::sleep(rest.max(SETTLE)).await;
        match Catalog::ask(&connection.peer).await {
            Ok(catalog) => server.learn(catalog),
            Err(reason) if openskill_telemetry::log::admits("tools cannot be listed") => tracing::warn!(
                server = server.manifest.id,
                reason = reason.ours(),
                said_bytes = reason.said_bytes(),
                "the tools of an MCP server cannot be listed"
            ),
            Err(_) => {}
        }
        listed = Some(Instant::now());
    }
}

/// Records which resources the server has reported as changed. Never returns.
async fn follow_resources(server: &Server, connection: &Connection) -> ConnectionEnd {
    let changed = &connection.signs.changed;
    loop {
        changed.some.notified().await;
        server.resources_changed(changed.take());
    }
}

/// Waits until the process exits, if the worker started it. Otherwise waits forever.
async fn exit(process: Option<&mut ServerProcess>) -> String {
    match process {
        Some(process) => process.wait_for_exit().await,
        None => std::future::pending().await,
    }
}

async fn exit_or_closed(process: Option<&mut ServerProcess>) -> String {
    let closed = "it closed the connection".to_owned();
    match process {
        Some(process) => tokio::time::timeout(GOODBYE, process.wait_for_exit()).await.unwrap_or(closed),
        None => closed,
    }
}
