//! The REST face: the same calls and results as over gRPC, as JSON. [`crate::serve::operations`] lists its routes.
//!
//! Every response but 204 has a body. A refusal has the shape of a failed result.

use axum::Router;
use axum::http::{HeaderValue, header};
use axum::response::Response;

pub(crate) mod artifacts;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod catalog;
pub(crate) mod docs;
mod documents;
pub(crate) mod health;
pub(crate) mod openapi;
pub(crate) mod operations;
mod prefer;
pub(crate) mod questions;
pub(crate) mod running_calls;
pub(crate) mod tools;
pub(crate) mod traces;

/// Adds fallbacks for requests without a route.
pub(crate) fn with_fallbacks(routes: Router) -> Router {
    routes.method_not_allowed_fallback(body::method_not_allowed).fallback(body::no_route)
}

/// Converts a response of the router. Prevents browsers from sniffing its type.
pub(crate) fn answer(mut response: Response) -> Response {
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
