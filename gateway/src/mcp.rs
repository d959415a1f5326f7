//! The state of a gateway for MCP clients (Model Context Protocol). A session's state is sealed into its id, so
//! that any replica can serve it and it survives restarts.
//!
//! - [`revision`]: the protocol revisions
//! - [`seal`]: texts that clients keep and can't forge; [`session`]: session ids, which are such texts, and client
//!   capabilities
//! - [`clients`]: ended sessions, calls in flight, log levels
//! - [`parked`]: running calls, and those that wait for answers
//! - [`replay`]: streams that clients can resume
//! - [`results`]: results that are too long to send at once
//! - [`owner`]: the owner of a task or a long result; [`shares`]: a store whose entries expire, and which principal
//!   loses one if it is full
//! - [`views`]: parts of the catalog at separate paths; [`pages`]: lists of tools, written once per change

pub(crate) mod clients;
pub(crate) mod owner;
pub(crate) mod pages;
pub(crate) mod parked;
pub(crate) mod replay;
pub(crate) mod results;
pub(crate) mod revision;
pub(crate) mod seal;
pub(crate) mod session;
mod shares;
pub(crate) mod views;

use std::sync::Arc;
use std::time::Duration;

use clients::Clients;
use pages::Pages;
use parked::ParkedCalls;
use replay::Replays;
use results::Results;
use seal::Key;
use views::{Views, ViewsConfig};

use crate::state::limits::Limits;

/// The MCP state of a gateway.
pub(crate) struct McpState {
    pub(crate) key: Key,
    pub(crate) clients: Clients,
    pub(crate) views: Arc<Views>,
    pub(crate) pages: Pages,
    /// The lists of prompts, resources and templates.
    pub(crate) offerings: [Pages; 3],
    pub(crate) parking: ParkedCalls,
    pub(crate) replays: Replays,
    pub(crate) results: Results,
}

impl McpState {
    /// Replicas share `secret`. If None, a random one is generated. Without `views`, only the view at `/mcp`
    /// exists. `resumable` is how long calls continue without their clients.
    pub(crate) fn new(secret: Option<&[u8]>, views: Option<ViewsConfig>, resumable: Duration, limits: &Limits) -> Self {
        Self {
            key: secret.map_or_else(Key::random, Key::from_secret),
            clients: Clients::new(limits),
            views: Arc::new(Views::new(views)),
            pages: Pages::default(),
            offerings: Default::default(),
            parking: ParkedCalls::default(),
            replays: Replays::new(resumable, limits),
            results: Results::default(),
        }
    }
}
