//! `GET /calls` and `DELETE /calls/{id}`: lists and cancels running calls.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use openskill_proto::render;
use openskill_proto::v1::{CancelCallRequest, ErrorCode, ListCallsRequest};
use serde::Deserialize;

use super::body;
use super::traces::refuse;
use crate::serve::layers::request_context;
use crate::serve::traces::Traces;

/// The query of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ListQuery {
    skill: String,
    principal: String,
    limit: u32,
}

/// The query of a cancellation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct CancelQuery {
    principal: Option<String>,
}

pub(crate) async fn list(
    State(traces): State<Traces>,
    query: Result<Query<ListQuery>, QueryRejection>,
    request: Request,
) -> Response {
    let Ok(Query(ListQuery { skill, principal, limit })) = query else {
        return body::refuse(
            ErrorCode::InvalidArgument,
            "the query may contain skill, principal, and limit, a whole number",
            &request,
        );
    };
    let reader = traces.reader(request.extensions());
    match traces.list_calls(&ListCallsRequest { skill_id: skill, principal, limit }, &reader) {
        Ok(calls) => body::json(render::calls(&calls)),
        Err(error) => refuse(error, &request),
    }
}

pub(crate) async fn cancel(
    State(traces): State<Traces>,
    id: Result<Path<String>, PathRejection>,
    query: Result<Query<CancelQuery>, QueryRejection>,
    request: Request,
) -> Response {
    let Ok(Query(CancelQuery { principal })) = query else {
        return body::refuse(ErrorCode::InvalidArgument, "the query may contain principal", &request);
    };
    let (reader, by) = (traces.reader(request.extensions()), request_context(request.extensions()).principal);
    // A path that is not UTF-8 can't be an id.
    let call_id = id.map(|Path(id)| id).unwrap_or_default();
    match traces.cancel_call(&CancelCallRequest { call_id, principal }, &reader, by.name()) {
        Ok(cancelled) => body::json(render::cancelled_calls(&cancelled)),
        Err(error) => refuse(error, &request),
    }
}
