//! `GET /healthz`: the process lives. `GET /readyz`: calls can be served. `GET /metrics`: what was counted.

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde_json::json;

use super::{Rest, body};

pub(super) async fn live() -> Response {
    body::json(json!({ "status": "ok" }).to_string())
}

/// In the text format of Prometheus.
pub(super) async fn metrics(State(rest): State<Rest>) -> Response {
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    ([(CONTENT_TYPE, kind)], rest.gateway.metrics.render(&rest.gateway.gauges())).into_response()
}

pub(super) async fn ready(State(rest): State<Rest>) -> Response {
    let gateway = &rest.gateway;
    let status = match (gateway.is_ready(), gateway.is_draining()) {
        (true, _) => "ready",
        (false, true) => "draining",
        (false, false) => "no worker is up",
    };
    let code = if gateway.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let text = json!({
        "status": status,
        "workers": { "up": gateway.workers.up(), "known": gateway.workers.all().len() },
        "skills": gateway.catalog.callable(),
        "in_flight": gateway.in_flight(),
    });
    (code, body::json(text.to_string())).into_response()
}
