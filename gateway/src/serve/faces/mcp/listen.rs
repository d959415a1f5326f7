//! Streams of changes: `GET /mcp` of older clients, and `subscriptions/listen`. [`super::watch`] finds the changes.
//! `GET` with `Last-Event-ID` resumes the stream of a call instead.
//!
//! The first change is sent at once. Later changes are combined, and sent at most once per second.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use openskill_identity::shares::Share;
use tokio::sync::watch;
use tokio::time::Instant;

use super::client::McpClient;
use super::headers::{Only, only};
use super::jsonrpc::{self, Code, Filter, Id, RpcError, notification};
use super::list::current;
use super::offerings::Viewer;
use super::response::{self, Accepts, refuse};
use super::sse::{self, BEAT, beat, event};
use super::view_access::ViewAccess;
use super::watch::Watch;
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::mcp::pages::List;
use crate::serve::layers::request_context;
use crate::state::limits::SharedLimit;

/// The minimum time between two notifications to a listener.
const PAUSE: Duration = Duration::from_secs(1);

/// The request header that resumes a stream: the id of the last event that the client received.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// A client that is listening for changes.
struct Listener {
    shard: Shard,
    access: ViewAccess,
    principal: Principal,
    /// Notifies about catalog changes.
    changes: watch::Receiver<u64>,
    views: watch::Receiver<u64>,
    /// The list that the client may have cached. None if it does not want list changes.
    seen: Option<Arc<List>>,
    /// The prompts and resources whose changes the client wants.
    watch: Watch,
    /// Whether something may have changed since the last notification.
    is_due: bool,
    /// The earliest time of the next notification.
    not_before: Instant,
    /// The id of the `subscriptions/listen` request, if there was one.
    id: Option<Id>,
    /// The session id. Empty for a client without a session.
    session: String,
    _place: Share,
}

/// `GET /mcp`: streams changes, or resumes the stream of a call.
pub(crate) async fn get(State(shard): State<Shard>, access: ViewAccess, request: Request) -> Response {
    let context = request_context(request.extensions());
    let fault = |status, code, message: &str| refuse(status, None, &RpcError::new(code, message));
    let client = match McpClient::identify(&shard, request.headers(), &context.principal, None) {
        Ok(client) => client,
        // A GET has no `_meta`. Tell a stateless client that GET is not supported, not that metadata is missing.
        Err((_, it)) if it.code == Code::InvalidParams => return no_get(STATELESS),
        Err((status, it)) => return refuse(status, None, &it),
    };
    if client.revision.is_stateless() {
        return no_get(STATELESS);
    }
    let Some(session) = &client.session else { return no_get(WITHOUT_SESSION) };
    if !Accepts::from_headers(request.headers()).events {
        let message = "this is a stream of events: send 'Accept: text/event-stream'";
        return fault(StatusCode::NOT_ACCEPTABLE, Code::InvalidRequest, message);
    }
    match only(request.headers(), &LAST_EVENT) {
        Only::None => {}
        Only::One(last) => {
            let owner = sse::owner(session, &access.view);
            let reader = shard.gateway.mcp.replays.resume(&context.principal, &owner, last, std::time::Instant::now());
            return match reader {
                Some(reader) => response::events(Body::from_stream(sse::events(reader))),
                None => fault(StatusCode::BAD_REQUEST, Code::InvalidRequest, "the stream of this event is not kept"),
            };
        }
        Only::Several => {
            return fault(StatusCode::BAD_REQUEST, Code::InvalidRequest, "Last-Event-ID is given more than once");
        }
    }
    match listener(shard, access, context.principal, true) {
        Ok(listener) => {
            let watch = Watch::for_session(&listener.shard, listener.viewer());
            stream(Listener { session: session.name().to_owned(), watch, ..listener })
        }
        Err(it) => refuse(StatusCode::SERVICE_UNAVAILABLE, None, &it),
    }
}

const STATELESS: &str = "GET is not supported since revision 2026-07-28: POST subscriptions/listen";

/// A client of the old HTTP+SSE transport starts with a GET, and would wait forever for its first event.
const WITHOUT_SESSION: &str = "this is a stream of a session: POST initialize, then send its Mcp-Session-Id. HTTP+SSE, the \
                               transport of 2024-11-05, is not supported";

fn no_get(message: &str) -> Response {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, None, &RpcError::new(Code::InvalidRequest, message));
    let allow = axum::http::HeaderValue::from_static("POST");
    response.headers_mut().insert(axum::http::header::ALLOW, allow);
    response
}

/// `subscriptions/listen`: streams the changes that the client wants.
///
/// # Errors
/// Too many clients are listening.
pub(super) async fn subscribe(
    shard: &Shard,
    access: ViewAccess,
    principal: Principal,
    id: Id,
    filter: Filter,
) -> Result<Response, RpcError> {
    // Create the listener first, so that no change is missed while it subscribes.
    let listener = listener(shard.clone(), access, principal, filter.tools_list_changed)?;
    let watch = Watch::for_filter(shard, listener.viewer(), &filter).await?;
    Ok(stream(Listener { id: Some(id), watch, ..listener }))
}

fn listener(shard: Shard, access: ViewAccess, principal: Principal, wants_tools: bool) -> Result<Listener, RpcError> {
    let place = shard.gateway.limits.pool(SharedLimit::Listeners).take(principal.shared_name(), 1);
    let Some(place) = place else {
        let message = "too many clients of this principal, or of all principals, are listening for changes";
        return Err(RpcError::new(Code::Overloaded, message));
    };
    // Subscribe before reading, so that a change in between is seen twice rather than never.
    let (changes, views) = (shard.gateway.catalog.changes(), shard.gateway.mcp.views.changes());
    let seen = wants_tools.then(|| current(&shard, &access.view, &principal));
    Ok(Listener {
        shard,
        access: access.without_uri(),
        principal,
        changes,
        views,
        seen,
        watch: Watch::default(),
        is_due: false,
        not_before: Instant::now(),
        id: None,
        session: String::new(),
        _place: place,
    })
}

fn stream(listener: Listener) -> Response {
    let first = listener.begin();
    let rest = stream::unfold(Some(listener), |listener| async move { listener?.next().await });
    response::events(Body::from_stream(stream::iter([first]).chain(rest).map(Ok::<_, Infallible>)))
}

impl Listener {
    fn viewer(&self) -> Viewer<'_> {
        Viewer { principal: &self.principal, view: &self.access.view, session_id: &self.session, trace_id: "" }
    }

    /// Waits for the next event. Returns it with the listener, unless it is the last one.
    async fn next(mut self) -> Option<(Bytes, Option<Self>)> {
        let gateway = Arc::clone(&self.shard.gateway);
        let beat_at = Instant::now() + BEAT;
        loop {
            tokio::select! {
                biased;
                () = gateway.shutdown.cancelled() => return self.end(),
                // This can't fail, because the sender lives as long as the gateway.
                Ok(()) = self.views.changed() => {
                    let Some(access) = self.access.renew(&gateway) else { return self.end() };
                    self.access = access;
                    self.is_due |= self.seen.is_some() || !self.watch.is_nothing();
                }
                () = tokio::time::sleep_until(self.not_before), if self.is_due => {
                    self.is_due = false;
                    if let Some(changed) = self.refresh().await {
                        return Some((changed, Some(self)));
                    }
                }
                changed = self.changes.changed(), if self.seen.is_some() || !self.watch.is_nothing() => {
                    changed.ok()?;
                    self.is_due = true;
                }
                () = tokio::time::sleep_until(beat_at) => {
                    let clients = &gateway.mcp.clients;
                    let has_ended =
                        !self.session.is_empty() && clients.has_ended(self.principal.name(), &self.session);
                    return (!has_ended).then(|| (beat(), Some(self)));
                }
            }
        }
    }

    /// Ends the stream. Returns its last event, if any.
    fn end(self) -> Option<(Bytes, Option<Self>)> {
        let id = self.id?;
        let result = format!("{{\"resultType\":\"complete\",\"_meta\":{}}}", tag(&id));
        Some((event(&jsonrpc::result(&id, &result)), None))
    }

    /// Returns the first event, which lists the notifications that the client will get.
    fn begin(&self) -> Bytes {
        let Some(id) = &self.id else { return beat() };
        let mut notifications = self.watch.filter_fields();
        if self.seen.is_some() {
            notifications.insert("toolsListChanged".to_owned(), true.into());
        }
        let notifications = serde_json::Value::Object(notifications);
        let params = format!("{{\"_meta\":{},\"notifications\":{notifications}}}", tag(id));
        event(&notification("notifications/subscriptions/acknowledged", &params))
    }

    /// Announces the subscriptions to new workers. Returns notifications about what has changed, if anything.
    async fn refresh(&mut self) -> Option<Bytes> {
        // Not `self.viewer()`, because `self.watch` is borrowed mutably.
        let (principal, view) = (&self.principal, &self.access.view);
        let viewer = Viewer { principal, view, session_id: &self.session, trace_id: "" };
        self.watch.renew(&self.shard, viewer).await;
        let mut said = self.watch.changes(&self.shard, viewer, self.id.as_ref());
        let now = current(&self.shard, &self.access.view, &self.principal);
        if let Some(seen) = self.seen.as_mut().filter(|seen| !Arc::ptr_eq(seen, &now) && **seen != now) {
            *seen = now;
            let params = self.id.as_ref().map_or_else(|| "{}".to_owned(), |id| format!("{{\"_meta\":{}}}", tag(id)));
            said.insert(0, notification("notifications/tools/list_changed", &params));
        }
        if said.is_empty() {
            return None;
        }
        self.not_before = Instant::now() + PAUSE;
        Some(said.iter().flat_map(|it| event(it)).collect())
    }
}

/// Returns the metadata that names the subscription of a message.
fn tag(id: &Id) -> String {
    format!("{{\"io.modelcontextprotocol/subscriptionId\":{}}}", id.json())
}
