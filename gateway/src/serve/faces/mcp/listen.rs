//! Streams of changes: `GET /mcp` of older clients, and `subscriptions/listen`. What changed is in [`super::watch`]. `GET` with
//! `Last-Event-ID` goes on with the stream of a call instead.
//!
//! A change reaches a listener at once, and further ones at most every two seconds, as one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderName, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream::{self, Stream};
use openskill_identity::shares::Share;
use tokio::sync::watch;
use tokio::time::Instant;

use super::answer::{self, Accepts, refuse};
use super::asker::Asker;
use super::entrance::Entrance;
use super::headers::{Only, only};
use super::jsonrpc::{self, Code, Fault, Filter, Id, notification};
use super::list::current;
use super::resumed;
use super::shelf::Viewer;
use super::sse::{BEAT, beat, event};
use super::watch::Watch;
use crate::call::principal::Principal;
use crate::gateway::Shard;
use crate::mcp::pages::List;
use crate::serve::layers::request_context;
use crate::state::limits::SharedLimit;

/// How much time lies between two notifications of a listener.
const PAUSE: Duration = Duration::from_secs(1);

/// The last event that a client got of a stream which it takes up again.
const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

/// A client that listens.
struct Listener {
    shard: Shard,
    entrance: Entrance,
    principal: Principal,
    /// Of the catalog, and of the views.
    changes: watch::Receiver<u64>,
    views: watch::Receiver<u64>,
    /// The list as the client may know it. None if it does not want to hear of it.
    seen: Option<Arc<List>>,
    /// What else it hears of.
    watch: Watch,
    /// Whether the list may have changed since.
    is_due: bool,
    /// When the next notification may be sent.
    not_before: Instant,
    /// The request, for `subscriptions/listen`.
    id: Option<Id>,
    /// The session, for a client that has one.
    session: String,
    state: State,
    _place: Share,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Begun,
    Waiting,
    Ended,
}

/// `GET /mcp`.
pub(super) fn get(shard: Shard, entrance: Entrance, request: &Request) -> Response {
    let context = request_context(request.extensions());
    let fault = |status, code, message: &str| refuse(status, None, &Fault::new(code, message));
    let asker = match Asker::of(&shard, request.headers(), &context.principal, None) {
        Ok(asker) => asker,
        // Only requests that say no more than a header can are refused for what they do not say.
        Err((_, it)) if it.code == Code::InvalidParams => return no_get(STATELESS),
        Err((status, it)) => return refuse(status, None, &it),
    };
    if asker.revision.is_stateless() {
        return no_get(STATELESS);
    }
    if asker.session.is_none() {
        return no_get(WITHOUT_SESSION);
    }
    if !Accepts::of(request.headers()).events {
        let message = "this is a stream of events: send 'Accept: text/event-stream'";
        return fault(StatusCode::NOT_ACCEPTABLE, Code::InvalidRequest, message);
    }
    match only(request.headers(), &LAST_EVENT) {
        Only::None => {}
        Only::One(last) => {
            let owner = asker.session.as_ref().map(|it| resumed::owner(it, &entrance.view)).unwrap_or_default();
            let reader = shard.gateway.mcp.replays.resume(&context.principal, &owner, last, std::time::Instant::now());
            return match reader {
                Some(reader) => answer::events(Body::from_stream(resumed::events(reader))),
                None => fault(StatusCode::BAD_REQUEST, Code::InvalidRequest, "the stream of this event is not kept"),
            };
        }
        Only::Several => {
            return fault(StatusCode::BAD_REQUEST, Code::InvalidRequest, "Last-Event-ID is there more than once");
        }
    }
    match listener(shard, entrance, context.principal, true) {
        Ok(listener) => {
            let watch = Watch::of_session(&listener.shard, listener.viewer());
            stream(Listener { session: asker.session_name().to_owned(), watch, ..listener })
        }
        Err(it) => refuse(StatusCode::SERVICE_UNAVAILABLE, None, &it),
    }
}

const STATELESS: &str = "since 2026-07-28 there is no GET: POST subscriptions/listen";

/// A client of HTTP+SSE begins like this, and would wait for an event that never comes.
const WITHOUT_SESSION: &str = "this is a stream of a session: POST initialize, then send its Mcp-Session-Id. HTTP+SSE, the \
                               transport of 2024-11-05, is not served";

fn no_get(message: &str) -> Response {
    let mut response = refuse(StatusCode::METHOD_NOT_ALLOWED, None, &Fault::new(Code::InvalidRequest, message));
    let allow = axum::http::HeaderValue::from_static("POST");
    response.headers_mut().insert(axum::http::header::ALLOW, allow);
    response
}

/// `subscriptions/listen`.
///
/// # Errors
/// Too many clients listen.
pub(super) async fn subscribe(
    shard: &Shard,
    entrance: Entrance,
    principal: Principal,
    id: Id,
    filter: Filter,
) -> Result<Response, Fault> {
    // Its changes from here on count, those while it subscribes too.
    let listener = listener(shard.clone(), entrance, principal, filter.tools_list_changed)?;
    let watch = Watch::of(shard, listener.viewer(), &filter).await?;
    Ok(stream(Listener { id: Some(id), watch, ..listener }))
}

fn listener(shard: Shard, entrance: Entrance, principal: Principal, wants_tools: bool) -> Result<Listener, Fault> {
    let place = shard.gateway.limits.pool(SharedLimit::Listeners).take(principal.shared_name(), 1);
    let Some(place) = place else {
        return Err(Fault::new(Code::Overloaded, "too many clients of this principal, or of all, listen for changes"));
    };
    // First subscribe, then read: a change in between is looked at twice rather than never.
    let (changes, views) = (shard.gateway.catalog.changes(), shard.gateway.mcp.views.changes());
    let seen = wants_tools.then(|| current(&shard, &entrance.view, &principal));
    Ok(Listener {
        shard,
        entrance: entrance.kept(),
        principal,
        changes,
        views,
        seen,
        watch: Watch::default(),
        is_due: false,
        not_before: Instant::now(),
        id: None,
        session: String::new(),
        state: State::Begun,
        _place: place,
    })
}

fn stream(listener: Listener) -> Response {
    answer::events(Body::from_stream(events(listener)))
}

fn events(listener: Listener) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold(listener, |mut listener| async move {
        let next = listener.next().await?;
        Some((Ok(next), listener))
    })
}

impl Listener {
    fn viewer(&self) -> Viewer<'_> {
        Viewer { principal: &self.principal, view: &self.entrance.view, session_id: &self.session, trace_id: "" }
    }

    async fn next(&mut self) -> Option<Bytes> {
        match self.state {
            State::Begun => {
                self.state = State::Waiting;
                return Some(self.begin());
            }
            State::Ended => return None,
            State::Waiting => {}
        }
        let gateway = Arc::clone(&self.shard.gateway);
        let beat_at = Instant::now() + BEAT;
        loop {
            tokio::select! {
                biased;
                () = gateway.shutdown.cancelled() => return self.end(),
                // It lives as long as the gateway.
                Ok(()) = self.views.changed() => {
                    let Some(entrance) = self.entrance.again(&gateway) else { return self.end() };
                    self.entrance = entrance;
                    self.is_due |= self.seen.is_some() || !self.watch.is_nothing();
                }
                () = tokio::time::sleep_until(self.not_before), if self.is_due => {
                    self.is_due = false;
                    if let Some(changed) = self.look().await {
                        return Some(changed);
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
                    return (!has_ended).then(beat);
                }
            }
        }
    }

    /// Ends the stream. What is sent last.
    fn end(&mut self) -> Option<Bytes> {
        self.state = State::Ended;
        self.id.as_ref().map(|id| event(&jsonrpc::result(id, &ended(id))))
    }

    /// The first thing that is sent: what the client will hear of.
    fn begin(&self) -> Bytes {
        let Some(id) = &self.id else { return beat() };
        let mut notifications = self.watch.granted();
        if self.seen.is_some() {
            notifications.insert("toolsListChanged".to_owned(), true.into());
        }
        let notifications = serde_json::Value::Object(notifications);
        let params = format!("{{\"_meta\":{},\"notifications\":{notifications}}}", tag(id));
        event(&notification("notifications/subscriptions/acknowledged", &params))
    }

    /// Tells new workers of the subscriptions. Returns notifications of what has changed, if anything has.
    async fn look(&mut self) -> Option<Bytes> {
        // Not by its method: the watch changes meanwhile.
        let (principal, view) = (&self.principal, &self.entrance.view);
        let viewer = Viewer { principal, view, session_id: &self.session, trace_id: "" };
        self.watch.renew(&self.shard, viewer).await;
        let mut said = self.watch.changes(&self.shard, viewer, self.id.as_ref());
        let now = current(&self.shard, &self.entrance.view, &self.principal);
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

/// Which subscription a message belongs to.
fn tag(id: &Id) -> String {
    format!("{{\"io.modelcontextprotocol/subscriptionId\":{}}}", id.json())
}

/// The result of a subscription that the gateway ends.
fn ended(id: &Id) -> String {
    format!("{{\"resultType\":\"complete\",\"_meta\":{}}}", tag(id))
}
