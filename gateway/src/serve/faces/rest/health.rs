//! `GET /healthz`: whether the process is alive. `GET /readyz`: whether it serves calls. `GET /metrics`: metrics.
//! `GET /version`: the version of the gateway.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse as _, Response};
use openskill_telemetry::metrics::text::Format;
use serde_json::json;

use super::body;
use crate::gateway::Shard;
use crate::serve::layers::request_context;

pub(crate) async fn live() -> Response {
    body::json(json!({ "status": "ok" }).to_string())
}

pub(crate) async fn version() -> Response {
    body::json(json!({ "version": env!("CARGO_PKG_VERSION") }).to_string())
}

/// Returns metrics in the Prometheus text format, or in the OpenMetrics format if the client accepts it.
/// Administrators see all metrics, other principals only those of their skills.
pub(crate) async fn metrics(State(shard): State<Shard>, request: Request) -> Response {
    let accepted = request.headers().get(ACCEPT).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let (format, gateway) = (Format::from_accept(accepted), Arc::clone(&shard.gateway));
    // With many skills, this takes milliseconds.
    let principal = request_context(request.extensions()).principal;
    let encode = move || {
        let mut all = gateway.metrics();
        if !principal.sees_all() && !principal.is_admin() {
            let skills = gateway.catalog.snapshot_for(&principal);
            all.keep_only("skill", |skill| skills.contains_key(skill));
        }
        format.encode(&all)
    };
    let text = shard.gateway.blocking_pool.run(encode).await;
    ([(CONTENT_TYPE, HeaderValue::from_static(format.content_type()))], text).into_response()
}

pub(crate) async fn ready(State(shard): State<Shard>) -> Response {
    let gateway = &shard.gateway;
    let status = match (gateway.is_ready(), gateway.is_draining()) {
        (true, _) => "ready",
        (false, true) => "draining",
        (false, false) => "no worker is up",
    };
    let code = if gateway.is_ready() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    if gateway.registry.is_some() {
        // The endpoint is public, so it returns only the status.
        return (code, body::json(json!({ "status": status }).to_string())).into_response();
    }
    let text = json!({
        "status": status,
        "workers": { "up": gateway.fleet.up(), "known": gateway.fleet.all().len() },
        "skills": gateway.catalog.callable(),
        "in_flight": gateway.in_flight(),
    });
    (code, body::json(text.to_string())).into_response()
}

/// Responds whether new requests are accepted.
pub(crate) async fn takes_requests(State(shard): State<Shard>) -> Response {
    let (code, status) = match shard.gateway.is_draining() {
        false => (StatusCode::OK, "ready"),
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
    };
    (code, body::json(json!({ "status": status }).to_string())).into_response()
}
