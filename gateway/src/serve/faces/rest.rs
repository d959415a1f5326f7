//! The REST face: the same calls and results as over gRPC, as JSON.
//!
//! Every answer has a body. That of a refusal has the shape of a failed result.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::{get, post};

use crate::gateway::Shard;
use crate::serve::bodies::outbound::Answer;
use crate::serve::traces::Traces;

mod artifacts;
pub(crate) mod body;
mod call;
mod catalog;
mod docs;
mod documents;
mod health;
mod openapi;
mod questions;
mod tools;
mod traces;

/// All routes of the public listener, beside those of gRPC. A path that is not served gets an answer in its own protocol.
/// `traces`: recorded calls, if they are served here.
pub(crate) fn routes(grpc: Router, shard: Shard, traces: Option<Traces>) -> Router {
    let routes = Router::new()
        .route("/", get(docs::home))
        .route("/skills", get(catalog::list))
        // `POST /skills:invoke` is for raw calls, which name their skill themselves.
        .route("/skills:invoke", post(call::invoke))
        .route("/skills:stream", post(call::stream))
        .route("/skills:prepare", post(call::prepare))
        // `/skills/echo` is read, `/skills/echo:invoke` is called.
        .route("/skills/{target}", get(catalog::one).post(call::post).fallback(catalog::other))
        .route("/questions/{target}", post(questions::answer))
        .route("/artifacts/{*handle}", get(artifacts::read))
        .route("/tools", get(tools::list))
        .route("/openapi.json", get(openapi::document))
        .route("/docs", get(docs::redirect))
        .route("/docs/", get(docs::index))
        .route("/docs/{*file}", get(docs::file))
        .with_state(shard.clone());
    let routes = traces.into_iter().map(self::traces).fold(routes, Router::merge);
    probes(grpc.merge(routes), shard)
}

/// The routes of recorded calls.
pub(crate) fn traces(traces: Traces) -> Router {
    let routes = Router::new().route("/traces", get(traces::list)).route("/traces/{id}", get(traces::one));
    routes.with_state(traces)
}

/// The routes of every listener: probes and metrics.
pub(crate) fn probes(others: Router, shard: Shard) -> Router {
    let probes = Router::new()
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .with_state(shard);
    with_fallbacks(others.merge(probes))
}

/// The probes of an agent alone: it has no workers to be ready.
pub(crate) fn probes_of_agent(others: Router, shard: Shard) -> Router {
    let probes = Router::new()
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::takes_requests))
        .route("/metrics", get(health::metrics))
        .with_state(shard);
    with_fallbacks(others.merge(probes))
}

fn with_fallbacks(routes: Router) -> Router {
    routes.method_not_allowed_fallback(body::method_not_allowed).fallback(body::no_route)
}

/// An answer of the router. No browser may guess its type.
pub(crate) fn answer(mut response: Response) -> http::Response<Answer> {
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response.map(Answer::Rest)
}
