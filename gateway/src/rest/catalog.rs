//! `GET /skills` and `GET /skills/{id}`.

use axum::extract::{Path, Query, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use openskill_proto::v1::ErrorCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Rest, body};
use crate::render;

#[derive(Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    toolset: String,
}

pub(super) async fn list(State(rest): State<Rest>, Query(wanted): Query<Wanted>) -> Response {
    let snapshot = rest.gateway.catalog.snapshot();
    let chosen = snapshot.values().filter(|it| wanted.toolset.is_empty() || it.skill.toolset == wanted.toolset);
    let skills: Vec<Value> = chosen.map(|entry| render::skill(&entry.skill)).collect();
    body::json(json!({ "skills": skills }).to_string())
}

pub(super) async fn one(State(rest): State<Rest>, Path(id): Path<String>, request: Request) -> Response {
    match rest.gateway.catalog.get(&id) {
        Some(entry) => body::json(render::skill(&entry.skill).to_string()),
        None => {
            let message = "there is no such skill: GET /skills lists them";
            body::refuse(StatusCode::NOT_FOUND, ErrorCode::NotFound, message, &body::trace_id(&request)).into_response()
        }
    }
}
