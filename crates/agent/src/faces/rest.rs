//! The routes under `/agent`: the same conversations as over gRPC, as JSON.
//!
//! - `body`: reading a bounded request, answering a refusal
//! - `request`: what the body of a chat request says; pure
//! - `answer`: events as one JSON document, as JSON lines, or as server-sent events

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{Extensions, HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use futures_util::StreamExt as _;
use openskill_proto::render;
use openskill_proto::v1::{ListConversationsRequest, SkillError};
use serde::Deserialize;

use super::stream::exchange;
use super::{Served, refusal};
use crate::error::AgentError;

mod answer;
mod body;
mod request;

use body::trace_id;

/// The routes. A path that is not served is for whoever mounts them.
pub fn routes(served: Served) -> Router {
    Router::new()
        .route("/agent/chat", post(chat))
        .route("/agent/conversations", get(list))
        .route("/agent/conversations/{id}", get(one).delete(remove))
        .route("/agent/conversations/{id}/events", get(events))
        .with_state(served)
}

/// A conversation's id in a path. One that is no UTF-8 is no id.
type Id = Result<Path<String>, axum::extract::rejection::PathRejection>;

async fn chat(State(served): State<Served>, request: Request) -> Response {
    let (trace_id, as_sse) = (trace_id(request.extensions()), wants_sse(request.headers()));
    let owner = served.owner(request.extensions());
    let bytes = match body::read(request, &trace_id).await {
        Ok(bytes) => bytes,
        Err(refusal) => return refusal,
    };
    let (conversation, input) = match request::parse(&bytes) {
        Ok(sent) => sent,
        Err(message) => return body::error(&refusal::invalid(message), &trace_id),
    };
    let accepted = match served.agent.send(&owner, &conversation, input).await {
        Ok(accepted) => accepted,
        Err(error) => return body::error(&refusal::of(&error), &trace_id),
    };
    let conversation = accepted.conversation_id.clone();
    let events = exchange::<std::convert::Infallible>(served.agent, owner, accepted, None);
    let events = events.map(|event| {
        event.map_err(|broken| match broken {
            super::stream::Broken::Agent(error) => refusal::of(&error),
            super::stream::Broken::Client(never) => match never {},
        })
    });
    if as_sse {
        return answer::sse(events, trace_id).into_response();
    }
    answer::whole(conversation, events, &trace_id).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Page {
    #[serde(default)]
    limit: u32,
    #[serde(default)]
    cursor: String,
}

async fn list(
    State(served): State<Served>,
    page: Result<Query<Page>, QueryRejection>,
    extensions: Extensions,
) -> Response {
    let Ok(Query(Page { limit, cursor })) = page else {
        return bad_query("limit, a whole number, and cursor", &extensions);
    };
    let request = ListConversationsRequest { limit, cursor };
    match served.agent.list(&served.principal(&extensions), request).await {
        Ok(page) => body::json(render::conversations(&page)),
        Err(error) => refuse(&error, &extensions),
    }
}

async fn one(State(served): State<Served>, id: Id, extensions: Extensions) -> Response {
    match served.agent.get(&served.principal(&extensions), &text(id)).await {
        Ok(found) => body::json(render::conversation(&found).to_string()),
        Err(error) => refuse(&error, &extensions),
    }
}

async fn remove(State(served): State<Served>, id: Id, extensions: Extensions) -> Response {
    match served.agent.delete(&served.principal(&extensions), &text(id)).await {
        Ok(()) => body::json("{}".to_owned()),
        Err(error) => refuse(&error, &extensions),
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Range {
    #[serde(default)]
    after: u64,
    follow: Option<bool>,
}

async fn events(
    State(served): State<Served>,
    id: Id,
    range: Result<Query<Range>, QueryRejection>,
    headers: HeaderMap,
    extensions: Extensions,
) -> Response {
    let Ok(Query(range)) = range else {
        return bad_query("after, a number, and follow, true or false", &extensions);
    };
    let as_sse = wants_sse(&headers);
    let after = last_event_id(&headers).unwrap_or(range.after);
    // A browser that follows asks again when the stream ends; curl waits for the end.
    let follow = range.follow.unwrap_or(as_sse);
    let events = match served.agent.events(&served.principal(&extensions), &text(id), after, follow).await {
        Ok(events) => events.map(|event| event.map_err(|error| refusal::of(&error))),
        Err(error) => return refuse(&error, &extensions),
    };
    let trace_id = trace_id(&extensions);
    if as_sse { answer::sse(events, trace_id).into_response() } else { answer::lines(events, trace_id) }
}

/// Where a client that reconnects goes on.
fn last_event_id(headers: &HeaderMap) -> Option<u64> {
    headers.get("last-event-id")?.to_str().ok()?.parse().ok()
}

fn wants_sse(headers: &HeaderMap) -> bool {
    let accepts = headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
    accepts.flat_map(|it| it.split(',')).any(|it| {
        let kind = it.split(';').next().unwrap_or_default().trim();
        kind.eq_ignore_ascii_case("text/event-stream")
    })
}

fn text(id: Id) -> String {
    id.map(|Path(id)| id).unwrap_or_default()
}

fn refuse(error: &AgentError, extensions: &Extensions) -> Response {
    body::error(&refusal::of(error), &trace_id(extensions))
}

fn bad_query(known: &str, extensions: &Extensions) -> Response {
    let error: SkillError = refusal::invalid(format!("the query may hold {known}"));
    body::error(&error, &trace_id(extensions))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn server_sent_events_are_for_clients_that_accept_them() {
        for (accept, expected) in [
            ("text/event-stream", true),
            ("application/json, Text/Event-Stream;q=0.5", true),
            ("application/json", false),
            ("*/*", false),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(wants_sse(&headers), expected, "{accept}");
        }
    }
}
