//! `/operations`: reads, watches, cancels, retries and removes stored calls. [`submit`] stores one.

use std::convert::Infallible;
use std::time::Duration;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream::{Stream, StreamExt as _};
use openskill_proto::longrunning::ListOperationsRequest;
use openskill_proto::render;
use openskill_proto::v1::{ErrorCode, InvokeRequest, OperationEvent, SkillError, SubmitRequest};
use serde::Deserialize;

use super::super::operation_message::{operation_json, page};
use super::body;
use super::prefer::Preferences;
use crate::call::outcome::Outcome;
use crate::call::principal::Principal;
use crate::call::request::{Call, RequestContext};
use crate::call::result::result;
use crate::gateway::Shard;
use crate::long_running::OperationSnapshot;
use crate::long_running::watch::watch;
use crate::serve::layers::request_context;
use crate::state::limits::SharedLimit;

/// The interval between keepalives on a stream without events.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// How long a client should wait before it reconnects to resume after the last event.
const RETRY: Duration = Duration::from_secs(1);

/// The methods of `/operations/{id}`.
const METHODS: &str = "DELETE,GET,HEAD";

/// The path after `/operations/`. It may not be UTF-8.
type Target = Result<Path<String>, PathRejection>;

/// Stores a call. If it ends within `wait`, responds with its result, otherwise with its operation.
pub(super) async fn submit(
    shard: &Shard,
    call: InvokeRequest,
    webhook: String,
    wait: Option<Duration>,
    context: RequestContext,
) -> Response {
    let named = InvokeRequest {
        skill_id: call.skill_id.clone(),
        call_id: call.call_id.clone(),
        envelope: call.envelope,
        ..InvokeRequest::default()
    };
    let request = SubmitRequest { call: Some(call), webhook, ..SubmitRequest::default() };
    let mut submitted = match shard.gateway.long_running.submit(shard, request, context.clone()).await {
        Ok(submitted) => submitted,
        Err(error) => return refuse(named, context, error),
    };
    if let Some(wait) = wait {
        submitted = wait_for(shard, &context.principal, submitted, wait).await;
        if let Some(result) = &submitted.result {
            let mut response = body::result(result);
            add_location(&mut response, &submitted.operation.id);
            return response;
        }
    }
    let mut response = accepted(submitted);
    response.headers_mut().insert("preference-applied", HeaderValue::from_static("respond-async"));
    response
}

/// Responds to a call that was not stored, as `:invoke` responds to one that it refuses.
pub(super) fn refuse(named: InvokeRequest, context: RequestContext, error: SkillError) -> Response {
    let may_have_run = error.may_have_run;
    let call = Call::unread(named, context, error.clone());
    body::result(&result(&call, Outcome { may_have_run, ..Outcome::from_error(error) }))
}

/// Waits for an operation, and returns its latest known state.
async fn wait_for(
    shard: &Shard,
    principal: &Principal,
    submitted: OperationSnapshot,
    wait: Duration,
) -> OperationSnapshot {
    let gateway = &shard.gateway;
    let limits = if principal.is_admin() { &gateway.operators } else { &gateway.limits };
    // The row of a call counts towards no pool. Without a share, the client asks for the operation later.
    let Some(_share) = limits.pool(SharedLimit::Watchers).take(principal.shared_name(), 1) else { return submitted };
    let waited = gateway.long_running.wait(principal, &submitted.operation.id, wait).await;
    waited.unwrap_or(submitted)
}

/// Responds that an operation is stored, and where it is.
fn accepted(submitted: OperationSnapshot) -> Response {
    let id = submitted.operation.id.clone();
    let mut response = body::json(operation_json(submitted));
    *response.status_mut() = StatusCode::ACCEPTED;
    add_location(&mut response, &id);
    response
}

fn add_location(response: &mut Response, id: &str) {
    if let Ok(location) = HeaderValue::try_from(format!("/operations/{id}")) {
        response.headers_mut().insert(header::LOCATION, location);
    }
}

/// The query of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ListQuery {
    filter: String,
    page_size: i32,
    page_token: String,
}

/// `GET /operations`.
pub(crate) async fn list(
    State(shard): State<Shard>,
    query: Result<Query<ListQuery>, QueryRejection>,
    request: Request,
) -> Response {
    let Ok(Query(ListQuery { filter, page_size, page_token })) = query else {
        let message = "the query may contain filter, page_token, and page_size, a whole number";
        return body::refuse(ErrorCode::InvalidArgument, message, &request);
    };
    let context = request_context(request.extensions());
    let wanted = ListOperationsRequest { filter, page_size, page_token, ..ListOperationsRequest::default() };
    match shard.gateway.long_running.list(&context.principal, &wanted).await {
        Ok(found) => body::json(render::operations(&page(&found))),
        Err(error) => body::error(&error, &context.trace.id),
    }
}

/// `GET /operations/{id}`. With `Prefer: wait=N`, waits until the operation is done.
pub(crate) async fn one(State(shard): State<Shard>, target: Target, request: Request) -> Response {
    let id = text(target);
    if id.contains(':') {
        return body::not_allowed(&request, "POST");
    }
    let (context, wait) = (request_context(request.extensions()), Preferences::read(request.headers()).wait);
    let (own, name) = (&shard.gateway.long_running, name(&id));
    let found = match wait {
        Some(wait) => own.wait(&context.principal, &name, wait).await,
        None => own.get(&context.principal, &name).await,
    };
    match found {
        Ok(found) => body::json(operation_json(found)),
        Err(error) => body::error(&error, &context.trace.id),
    }
}

/// `DELETE /operations/{id}`.
pub(crate) async fn remove(State(shard): State<Shard>, target: Target, request: Request) -> Response {
    let id = text(target);
    if id.contains(':') {
        return body::not_allowed(&request, "POST");
    }
    let context = request_context(request.extensions());
    match shard.gateway.long_running.delete(&context.principal, &name(&id)).await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(error) => body::error(&error, &context.trace.id),
    }
}

/// `POST /operations/{id}:cancel` and `:retry`.
pub(crate) async fn post(State(shard): State<Shard>, target: Target, request: Request) -> Response {
    let context = request_context(request.extensions());
    let (own, trace_id) = (&shard.gateway.long_running, context.trace.id.clone());
    // A path that is not UTF-8 contains no valid verb.
    let target = target.map_or_else(|_| ":".to_owned(), |Path(target)| target);
    let done = match target.rsplit_once(':') {
        Some((id, "cancel")) => own.cancel(&context.principal, &name(id)).await.map(|()| body::json("{}".to_owned())),
        Some((id, "retry")) => own.retry(&shard, &name(id), context).await.map(accepted),
        Some(_) => {
            let message = "POST to /operations/{id}:cancel or /operations/{id}:retry";
            return body::refuse(ErrorCode::NotFound, message, &request);
        }
        None => return body::not_allowed(&request, METHODS),
    };
    done.unwrap_or_else(|error| body::error(&error, &trace_id))
}

/// Responds to other methods: operations are read with GET, and changed with DELETE, or with POST and a verb.
pub(crate) async fn other(target: Target, request: Request) -> Response {
    let has_verb = text(target).contains(':');
    body::not_allowed(&request, if has_verb { "POST" } else { METHODS })
}

/// The query of an event stream.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Range {
    after: u64,
}

/// `GET /operations/{id}/events`: server-sent events, whose ids are the numbers of the events.
pub(crate) async fn events(
    State(shard): State<Shard>,
    target: Target,
    range: Result<Query<Range>, QueryRejection>,
    request: Request,
) -> Response {
    let Ok(Query(Range { after })) = range else {
        let message = "the query may contain after, the number of an event";
        return body::refuse(ErrorCode::InvalidArgument, message, &request);
    };
    let after = last_event_id(request.headers()).unwrap_or(after);
    let (context, name) = (request_context(request.extensions()), name(&text(target)));
    // Before the stream begins, an error still has a status.
    if let Err(error) = shard.gateway.long_running.get(&context.principal, &name).await {
        return body::error(&error, &context.trace.id);
    }
    let events = watch(&shard.gateway, context.principal, &name, after);
    let events = as_sse(events, context.trace.id);
    Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response()
}

/// Returns the number of the last event that a reconnecting client received.
fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

fn as_sse(
    events: impl Stream<Item = Result<OperationEvent, SkillError>>,
    trace_id: String,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let mut is_first = true;
    events.map(move |event| {
        Ok(match event {
            Ok(event) => {
                let (name, data) = render::operation_event(&event);
                let sent = Event::default().event(name).id(event.number.to_string()).data(data);
                if std::mem::take(&mut is_first) { sent.retry(RETRY) } else { sent }
            }
            Err(error) => Event::default().event("error").data(render::refusal(&error, &trace_id)),
        })
    })
}

/// Returns the id in a path. A path that is not UTF-8 can't be an id.
fn text(target: Target) -> String {
    target.map(|Path(id)| id).unwrap_or_default()
}

fn name(id: &str) -> String {
    format!("operations/{id}")
}
