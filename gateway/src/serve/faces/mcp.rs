//! The MCP face: every skill is a tool, at `/mcp`, for clients of every protocol revision.
//!
//! The path of a request:
//!
//! ```text
//! POST -> [`view_access`]: the view that the path names, and whether a token may use it
//!      -> [`jsonrpc`]: the body, parsed once; arguments stay text
//!      -> [`client`]: its revision and its session, from headers and message ([`headers`])
//!      -> [`methods`]: the requested method -> [`client`], [`list`], [`call`]
//!      -> [`reply`], [`content`], [`long`]: a result as content blocks
//!      -> [`response`]: JSON, or [`stream`] if events precede the result (resumable: [`sse`])
//!      -> [`offerings`], [`resources`]: prompts and resources; [`tasks`]: calls that outlive their requests
//! GET  -> [`listen`], [`watch`]: changes of lists and resources, also for `subscriptions/listen`
//! ```
//!
//! A call runs through [`crate::invoke`], like one over REST: its arguments are repaired, and circuits and
//! principals apply.

mod batch;
mod call;
mod client;
mod content;
mod headers;
mod jsonrpc;
mod list;
mod listen;
mod long;
mod methods;
mod offerings;
mod questions;
mod reply;
mod resources;
mod response;
mod sse;
mod stream;
mod tasks;
mod view_access;
mod watch;

pub(crate) use client::delete;
pub(crate) use listen::get;
pub(crate) use methods::post;
pub(crate) use view_access::metadata;
