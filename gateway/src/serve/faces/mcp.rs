//! The MCP face: every skill is a tool, at `/mcp`, for clients of all revisions of the protocol.
//!
//! The path of a request:
//!
//! ```text
//! POST -> [`entrance`]: the view that the path names, and whether a token may use it
//!      -> [`jsonrpc`]: the body, parsed once; arguments stay text
//!      -> [`asker`]: who asks and by which revision: its session, or what the request says of itself (checked by [`headers`])
//!      -> [`methods`]: what it asks for -> [`hello`], [`list`], [`search`], [`call`]
//!      -> [`reply`], [`content`], [`long`]: a result as content blocks -> [`answer`]: JSON; or, if something comes before the result, [`stream`], which may be [`resumed`]
//!      -> [`shelf`], [`resources`]: prompts and resources; [`tasks`]: calls that go on without their requests
//! GET  -> [`listen`], [`watch`]: changes of lists and resources, as `subscriptions/listen` gets them
//! ```
//!
//! A call is one of [`crate::invoke`], as over REST: its arguments are repaired, its circuit counts, its caller is its principal.

mod answer;
mod asker;
mod batch;
mod call;
mod capabilities;
mod content;
mod entrance;
mod headers;
mod hello;
mod jsonrpc;
mod list;
mod listen;
mod long;
mod methods;
mod questions;
mod reply;
mod resources;
mod resumed;
mod running;
mod search;
mod shelf;
mod sse;
mod stream;
mod task_rules;
mod tasks;
mod watch;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get as on_get, post as on_post};

use self::entrance::{Entrance, ViewName};
use crate::gateway::Shard;
use crate::serve::resource::METADATA;

/// The routes of the face.
pub(crate) fn routes(shard: Shard) -> Router {
    let methods = on_post(post).get(get).delete(delete);
    Router::new()
        .route("/mcp", methods.clone())
        .route("/mcp/{view}", methods)
        .route(METADATA, on_get(entrance::metadata))
        .route(&format!("{METADATA}/{{*path}}"), on_get(entrance::metadata))
        .with_state(shard)
}

async fn post(State(shard): State<Shard>, view: ViewName, request: Request) -> Response {
    match Entrance::of(&shard, view, &request) {
        Ok(entrance) => methods::post(shard, entrance, request).await,
        Err(refusal) => *refusal,
    }
}

/// A client of a revision with sessions listens for changes.
async fn get(State(shard): State<Shard>, view: ViewName, request: Request) -> Response {
    match Entrance::of(&shard, view, &request) {
        Ok(entrance) => listen::get(shard, entrance, &request),
        Err(refusal) => *refusal,
    }
}

/// A client ends its session.
async fn delete(State(shard): State<Shard>, view: ViewName, request: Request) -> Response {
    match Entrance::of(&shard, view, &request) {
        Ok(_) => asker::delete(&shard, &request),
        Err(refusal) => *refusal,
    }
}
