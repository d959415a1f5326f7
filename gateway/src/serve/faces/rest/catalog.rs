//! `GET /skills` and `GET /skills/{id}`.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, Request, State};
use axum::response::Response;
use openskill_proto::render;
use openskill_proto::v1::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::body;
use crate::catalog::lookup::MAY_BE_NEW;
use crate::gateway::Shard;
use crate::serve::layers::request_context;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuery {
    #[serde(default)]
    toolset: String,
}

pub(crate) async fn list(
    State(shard): State<Shard>,
    query: Result<Query<ListQuery>, QueryRejection>,
    request: Request,
) -> Response {
    let Ok(Query(query)) = query else {
        let message = "the query can't be read: it may contain one toolset=NAME";
        return body::refuse(ErrorCode::InvalidArgument, message, &request);
    };
    let principal = request_context(request.extensions()).principal;
    let snapshot = shard.gateway.catalog.snapshot_for(&principal);
    let chosen = snapshot.values().filter(|it| query.toolset.is_empty() || it.skill.toolset == query.toolset);
    let skills: Vec<Value> = chosen.map(|entry| render::skill(&entry.skill)).collect();
    body::json(json!({ "skills": skills }).to_string())
}

pub(crate) async fn one(
    State(shard): State<Shard>,
    id: Result<Path<String>, PathRejection>,
    request: Request,
) -> Response {
    if id.as_ref().is_ok_and(|Path(id)| id.contains(':')) {
        return body::not_allowed(&request, "POST");
    }
    let principal = request_context(request.extensions()).principal;
    match id.ok().and_then(|Path(id)| shard.gateway.catalog.shown_to(&id, &principal)) {
        Some(entry) => body::json(render::skill(&entry.skill).to_string()),
        None => {
            let message = format!("unknown skill. {MAY_BE_NEW} GET /skills lists all skills");
            body::refuse(ErrorCode::NotFound, message, &request)
        }
    }
}

/// Responds to other methods: skills are read with GET, and called with POST and a verb.
pub(crate) async fn other(id: Result<Path<String>, PathRejection>, request: Request) -> Response {
    let is_call = id.is_ok_and(|Path(id)| id.contains(':'));
    body::not_allowed(&request, if is_call { "POST" } else { "GET,HEAD" })
}
