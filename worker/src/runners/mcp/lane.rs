//! Keeps one connection to a server up: connects, watches it, and reconnects with backoff when it ends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, Fuse, FusedFuture as _};
use rmcp::model::{ClientRequest, PingRequest, SubscriptionFilter};
use rmcp::service::Subscription;
use rmcp::{Peer, RoleClient};

use super::catalog::Catalog;
use super::connection::{Connection, Opened, open};
use super::consult;
use super::program::Started;
use super::server::Server;

use super::why::Why;

/// The backoff before a server is tried again: doubled with each failure, from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// A connection that lasted this long resets the backoff.
const HEALTHY: Duration = Duration::from_secs(60);

/// How long a server may take to end when it is told to, or to deliver its last answers when it ended.
const GOODBYE: Duration = Duration::from_millis(500);

/// How long running calls may take at a server that is to be replaced.
const RETIREMENT: Duration = Duration::from_secs(5);

/// How long a server that owes many answers may take to answer a ping.
const PULSE: Duration = Duration::from_secs(5);

/// Servers announce several changes at once: they are read together.
const SETTLE: Duration = Duration::from_millis(50);

/// The shortest interval between two readings of a server's tools.
const CHANGES: Duration = Duration::from_secs(1);

/// How a connection ended.
enum End {
    /// It broke, or could not be made.
    Lost(Why),
    /// The server is stopped.
    Stopped,
}

/// Starts all lanes of a server: within a runtime that lives as long as the worker.
pub(super) fn start_all(server: &Arc<Server>) {
    for index in 0..server.lanes.len() {
        server.tasks.spawn(keep(Arc::clone(server), index));
    }
}

/// Keeps the server's connection of this number up until the server is stopped.
async fn keep(server: Arc<Server>, index: usize) {
    let mut pause = FIRST_PAUSE;
    loop {
        let begun = Instant::now();
        let end = live(&server, index).await;
        server.leave(index);
        let reason = match end {
            End::Stopped => return,
            End::Lost(reason) => reason,
        };
        if begun.elapsed() >= HEALTHY {
            pause = FIRST_PAUSE;
        }
        if openskill_log::admits("an MCP server is unavailable") {
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

/// One connection, from its start to its end.
async fn live(server: &Server, index: usize) -> End {
    let host = &server.host;
    let connect = async {
        let mut opened = open(&server.manifest, &server.mcp, host).await?;
        match (Catalog::ask(&opened.connection.peer).await, &mut opened.process) {
            (Ok(catalog), _) => Ok::<_, Why>((opened, catalog)),
            (Err(reason), Some(process)) => Err(process.why().await.map_or(reason, Why::from)),
            (Err(reason), None) => Err(reason),
        }
    };
    let (opened, catalog) = tokio::select! {
        () = server.stop.cancelled() => return End::Stopped,
        connected = connect => match connected {
            Ok(connected) => connected,
            Err(reason) => return End::Lost(reason),
        },
    };
    if openskill_log::admits("an MCP server is up") {
        tracing::info!(server = server.manifest.id, tools = catalog.tools.len(), "an MCP server is up");
    }
    consult::subscribe_again(server, &opened.connection.peer).await;
    // It ends when it is dropped.
    let _changes = if opened.is_without_handshake { listen(&opened.connection.peer).await } else { None };
    server.up(index, &opened.connection, catalog);
    watch(server, index, opened).await
}

/// Asks a server for the announcements of changes.
async fn listen(peer: &Peer<RoleClient>) -> Option<Subscription> {
    let all = SubscriptionFilter::builder().tools_list_changed().prompts_list_changed().resources_list_changed();
    tokio::time::timeout(PULSE, peer.listen(all.build())).await.ok()?.ok()
}

/// Until the connection ends, for whatever reason.
async fn watch(server: &Server, index: usize, opened: Opened) -> End {
    let Opened { connection, service, mut process, requests: _requests, .. } = opened;
    let goodbye = service.cancellation_token();
    let mut serving = Box::pin(service.waiting().fuse());
    // Requests of this loop to the server run beside it: none may block it.
    let mut listing: Fuse<BoxFuture<'_, _>> = Fuse::terminated();
    let mut pulse: Fuse<BoxFuture<'_, bool>> = Fuse::terminated();
    let mut listed = Instant::now().checked_sub(CHANGES);
    let end = loop {
        tokio::select! {
            _ = &mut serving => break End::Lost(ended(process.as_mut()).await.into()),
            reason = exit(process.as_mut()) => {
                // Its last answers are still in the pipe.
                let _ = tokio::time::timeout(GOODBYE, &mut serving).await;
                break End::Lost(reason.into());
            }
            () = connection.lost.notified() => {
                server.leave(index);
                // One call found this; the others may still get their answers.
                retire(server, &connection.capacity, connection.calls).await;
                break End::Lost("it cannot be reached".into());
            }
            // Cancelled calls need no answer, and a refused one says little: a ping tells whether the server still answers.
            () = connection.doubtful.notified(), if pulse.is_terminated() => pulse = alive(&connection).boxed().fuse(),
            alive = &mut pulse => {
                if alive {
                    continue;
                }
                server.leave(index);
                retire(server, &connection.capacity, connection.calls).await;
                break End::Lost("it no longer answers".into());
            }
            () = connection.signs.tools_changed.notified(), if listing.is_terminated() => {
                let rest = listed.map_or(Duration::ZERO, |before| CHANGES.saturating_sub(before.elapsed()));
                let peer = &connection.peer;
                let list = async move {
                    tokio::time::sleep(rest.max(SETTLE)).await;
                    Catalog::ask(peer).await
                };
                listing = list.boxed().fuse();
            }
            () = connection.signs.changed.some.notified() => server.resources_changed(connection.signs.changed.take()),
            catalog = &mut listing => {
                listed = Some(Instant::now());
                match catalog {
                    Ok(catalog) => server.learn(catalog),
                    Err(reason) if openskill_log::admits("tools cannot be listed") => tracing::warn!(
                        server = server.manifest.id,
                        reason = reason.ours(),
                        said_bytes = reason.said_bytes(),
                        "the tools of an MCP server cannot be listed"
                    ),
                    Err(_) => {}
                }
            }
            () = server.stop.cancelled() => break End::Stopped,
        }
    };
    server.leave(index);
    // Closes a process's standard input, ends a session over HTTP.
    goodbye.cancel();
    let orderly = async {
        if !serving.is_terminated() {
            let _ = tokio::time::timeout(GOODBYE, &mut serving).await;
        }
        if matches!(end, End::Stopped) && process.is_some() {
            let _ = tokio::time::timeout(GOODBYE, exit(process.as_mut())).await;
        }
    };
    orderly.await;
    end
}

/// Whether the server still answers.
async fn alive(connection: &Connection) -> bool {
    let ping = connection.peer.send_request(ClientRequest::PingRequest(PingRequest::default()));
    // An error is an answer too.
    matches!(tokio::time::timeout(PULSE, ping).await, Ok(Ok(_) | Err(rmcp::ServiceError::McpError(_))))
}

/// Waits for the end of the process, if the worker started it; else forever.
async fn exit(process: Option<&mut Started>) -> String {
    match process {
        Some(process) => process.ended().await,
        None => std::future::pending().await,
    }
}

async fn ended(process: Option<&mut Started>) -> String {
    let closed = "it closed the connection".to_owned();
    match process {
        Some(process) => tokio::time::timeout(GOODBYE, process.ended()).await.unwrap_or(closed),
        None => closed,
    }
}

/// Waits for the running calls, for at most [`RETIREMENT`].
async fn retire(server: &Server, capacity: &tokio::sync::Semaphore, calls: usize) {
    let all = u32::try_from(calls).unwrap_or(u32::MAX);
    tokio::select! {
        _ = tokio::time::timeout(RETIREMENT, capacity.acquire_many(all)) => {}
        () = server.stop.cancelled() => {}
    }
}
