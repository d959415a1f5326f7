//! The MCP face: every skill is a tool, at `/mcp`, for clients of all revisions of the protocol.
//!
//! The path of a request:
//!
//! ```text
//! POST -> [`jsonrpc`]: the body, parsed once; arguments stay text
//!      -> [`asker`]: who asks and by which revision: its session, or what the request says of itself (checked by [`headers`])
//!      -> [`methods`]: what it asks for -> [`hello`], [`list`], [`call`]
//!      -> [`reply`], [`content`]: a result as content blocks -> [`answer`]: JSON; or, if something comes before the result, [`stream`]
//!      -> [`shelf`], [`resources`]: prompts and resources; [`tasks`]: calls that go on without their requests
//! GET  -> [`listen`], [`watch`]: changes of lists and resources, as `subscriptions/listen` gets them
//! ```
//!
//! A call is one of [`crate::invoke`], as over REST: its arguments are repaired, its circuit counts, its caller is its principal.

mod answer;
mod asker;
mod call;
mod capabilities;
mod content;
mod headers;
mod hello;
mod jsonrpc;
mod list;
mod listen;
mod methods;
mod questions;
mod reply;
mod resources;
mod running;
mod shelf;
mod stream;
mod task_rules;
mod tasks;
mod watch;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::post as on_post;

use crate::gateway::Shard;

/// The route of the face.
pub(crate) fn routes(shard: Shard) -> Router {
    Router::new().route("/mcp", on_post(post).get(get).delete(delete)).with_state(shard)
}

async fn post(State(shard): State<Shard>, request: Request) -> Response {
    methods::post(shard, request).await
}

/// A client of a revision with sessions listens for changes.
async fn get(State(shard): State<Shard>, request: Request) -> Response {
    listen::get(shard, &request)
}

/// A client ends its session.
async fn delete(State(shard): State<Shard>, request: Request) -> Response {
    asker::delete(&shard, &request)
}
