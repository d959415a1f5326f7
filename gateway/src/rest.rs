//! The REST face: the same calls and results as over gRPC, as JSON.
//!
//! Every answer has a body, also the refusals: the shape of a failed result.

use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};

use crate::gateway::Gateway;

pub(crate) mod body;
mod call;
mod catalog;
mod docs;
mod health;
mod openapi;
mod tools;

/// The face on one shard.
#[derive(Clone)]
pub(crate) struct Rest {
    pub(crate) gateway: Arc<Gateway>,
    pub(crate) shard: usize,
}

/// All routes, added to those of gRPC. What has no route gets an answer in its own protocol.
pub(crate) fn routes(grpc: Router, rest: Rest) -> Router {
    let routes = Router::new()
        .route("/", get(docs::home))
        .route("/skills", get(catalog::list))
        // `POST /skills:invoke` is for raw calls, which name their skill themselves.
        .route("/skills:invoke", post(call::invoke))
        .route("/skills:stream", post(call::stream))
        // `/skills/echo` is read, `/skills/echo:invoke` is called.
        .route("/skills/{target}", get(catalog::one).merge(post(call::post)))
        .route("/tools", get(tools::list))
        .route("/healthz", get(health::live))
        .route("/readyz", get(health::ready))
        .route("/metrics", get(health::metrics))
        .route("/openapi.json", get(openapi::document))
        .route("/docs", get(docs::redirect))
        .route("/docs/", get(docs::index))
        .route("/docs/{*file}", get(docs::file))
        .method_not_allowed_fallback(body::method_not_allowed)
        .with_state(rest);
    grpc.merge(routes).fallback(body::no_route)
}
