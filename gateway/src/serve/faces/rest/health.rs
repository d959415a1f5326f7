//! `GET /healthz`: the process is alive. `GET /readyz`: calls are served. `GET /metrics`: counters and gauges.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::body;
use crate::gateway::Shard;

pub(super) async fn live() -> Response {
    body::json(json!({ "status": "ok" }).to_string())
}

/// In the OpenMetrics text format.
pub(super) async fn metrics(State(shard): State<Shard>) -> Response {
    let kind = HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
    ([(CONTENT_TYPE, kind)], shard.gateway.observer.metrics.render(&shard.gateway.gauges())).into_response()
}

pub(super) async fn ready(State(shard): State<Shard>) -> Response {
    let gateway = &shard.gateway;
    let status = match (gateway.is_ready(), gateway.is_draining()) {
        (true, _) => "ready",
        (false, true) => "draining",
        (false, false) => "no worker is up",
    };
    let code = if gateway.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let text = json!({
        "status": status,
        "workers": { "up": gateway.fleet.up(), "known": gateway.fleet.all().len() },
        "skills": gateway.catalog.callable(),
        "in_flight": gateway.in_flight(),
    });
    (code, body::json(text.to_string())).into_response()
}
