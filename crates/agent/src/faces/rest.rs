//! The REST handlers: the same conversations as over gRPC, as JSON. The server that mounts them defines the routes
//! under `/agent`.
//!
//! - `body`: reads bounded request bodies, and answers rejected requests
//! - `request`: parses the body of a chat request
//! - `answer`: events as one JSON document, as JSON lines, or as server-sent events

use axum::extract::rejection::QueryRejection;
use axum::extract::{Path, Query, Request, State};
use axum::http::{Extensions, HeaderMap, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::TryStreamExt as _;
use openskill_proto::render;
use openskill_proto::v1::SkillError;
use serde::Deserialize;

use super::stream::exchange;
use super::{Served, refusal};
mod answer;
mod body;
mod request;

use body::trace_id;

/// The conversation id in a path. Paths that are not UTF-8 are rejected.
type Id = Result<Path<String>, axum::extract::rejection::PathRejection>;

/// `POST /agent/chat`: sends a client's input to the agent, and returns the events.
///
/// # Errors
/// The request is rejected. The error is the complete response.
pub async fn chat(State(served): State<Served>, request: Request) -> Result<Response, Response> {
    let (trace_id, as_sse) = (trace_id(request.extensions()), wants_sse(request.headers()));
    let caller = served.caller(request.extensions());
    let bytes = body::read(request, &trace_id).await?;
    let refuse = |error: SkillError| body::error(&error, &trace_id);
    let (conversation, input) = request::parse(&bytes).map_err(|message| refuse(refusal::invalid(message)))?;
    let accepted = served.hosted.send(&caller, &conversation, input).await.map_err(|error| refuse(error.into()))?;
    let conversation = accepted.conversation_id.clone();
    let events = exchange::<SkillError>(served.hosted, caller, accepted, None);
    if as_sse {
        return Ok(answer::sse(events, trace_id).into_response());
    }
    Ok(answer::whole(conversation, events, &trace_id).await)
}

/// The query parameters of a list request.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Page {
    #[serde(default)]
    limit: u32,
    #[serde(default)]
    cursor: String,
}

/// `GET /agent/conversations`: lists a page of conversations.
///
/// # Errors
/// The request is rejected. The error is the complete response.
pub async fn list(
    State(served): State<Served>,
    page: Result<Query<Page>, QueryRejection>,
    extensions: Extensions,
) -> Result<Response, Response> {
    let Ok(Query(Page { limit, cursor })) = page else {
        return Err(bad_query("limit, a whole number, and cursor", &extensions));
    };
    let listed = served.hosted.agent.journal().list(&served.principal(&extensions), limit, &cursor).await;
    let listed = listed.map_err(|error| refuse(error, &extensions))?;
    Ok(body::json(render::conversations(&listed)))
}

/// `GET /agent/conversations/{id}`: returns a conversation.
///
/// # Errors
/// The request is rejected. The error is the complete response.
pub async fn one(State(served): State<Served>, id: Id, extensions: Extensions) -> Result<Response, Response> {
    let found = served.hosted.agent.journal().get(&served.principal(&extensions), &text(id)).await;
    let found = found.map_err(|error| refuse(error, &extensions))?;
    Ok(body::json(render::conversation(&found).to_string()))
}

/// `DELETE /agent/conversations/{id}`: deletes a conversation.
///
/// # Errors
/// The request is rejected. The error is the complete response.
pub async fn remove(State(served): State<Served>, id: Id, extensions: Extensions) -> Result<Response, Response> {
    let deleted = served.hosted.delete(&served.principal(&extensions), &text(id)).await;
    deleted.map_err(|error| refuse(error, &extensions))?;
    Ok(body::json("{}".to_owned()))
}

/// The query parameters of an event stream.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    #[serde(default)]
    after: u64,
    follow: Option<bool>,
}

/// `GET /agent/conversations/{id}/events`: returns the stored events, optionally followed by new events.
///
/// # Errors
/// The request is rejected. The error is the complete response.
pub async fn events(
    State(served): State<Served>,
    id: Id,
    range: Result<Query<Range>, QueryRejection>,
    headers: HeaderMap,
    extensions: Extensions,
) -> Result<Response, Response> {
    let Ok(Query(range)) = range else {
        return Err(bad_query("after, a number, and follow, true or false", &extensions));
    };
    let as_sse = wants_sse(&headers);
    let after = last_event_id(&headers).unwrap_or(range.after);
    // A browser's event source reconnects when a stream ends, so its stream should stay open. Other clients, such
    // as curl, wait for the end.
    let follow = range.follow.unwrap_or(as_sse);
    let events = served.hosted.agent.events(&served.principal(&extensions), &text(id), after, follow).await;
    let events = events.map_err(|error| refuse(error, &extensions))?.map_err(SkillError::from);
    let trace_id = trace_id(&extensions);
    Ok(if as_sse { answer::sse(events, trace_id).into_response() } else { answer::lines(events, trace_id) })
}

/// Returns the number of the last event that a reconnecting client received.
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

fn refuse(error: impl Into<SkillError>, extensions: &Extensions) -> Response {
    body::error(&error.into(), &trace_id(extensions))
}

fn bad_query(known: &str, extensions: &Extensions) -> Response {
    refuse(refusal::invalid(format!("the query may contain {known}")), extensions)
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
