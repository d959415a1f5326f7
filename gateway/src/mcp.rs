//! What a gateway knows of clients that speak MCP (Model Context Protocol). It is little: a session is sealed into its own id,
//! so any replica serves it and no restart loses it.
//!
//! - [`revision`]: the revisions of the protocol
//! - [`seal`]: texts that clients keep and cannot forge; [`session`]: ids of sessions made that way
//! - [`clients`]: bounded state of this process: sessions that were ended, calls in flight, levels of log messages
//! - [`parked`]: calls that wait until their clients come back with answers; [`replay`]: streams that clients take up again
//! - [`tasks`]: calls that go on without a request
//! - [`results`]: those that are too long to be sent at once
//! - [`owner`]: the owners of all that; [`shares`]: whose entry is evicted if there is no room
//! - [`views`]: parts of the catalog at paths of their own; [`pages`]: lists of tools, written once per change

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
pub(crate) mod tasks;
pub(crate) mod views;

use std::sync::Arc;
use std::time::Duration;

use clients::Clients;
use pages::Pages;
use parked::Parking;
use replay::Replays;
use results::Results;
use seal::Key;
use tasks::Tasks;
use views::{Views, ViewsConfig};

use crate::state::limits::Limits;

/// The state of a gateway for MCP.
pub(crate) struct McpState {
    pub(crate) key: Key,
    pub(crate) clients: Clients,
    pub(crate) views: Arc<Views>,
    pub(crate) pages: Pages,
    /// Lists of prompts, resources and templates.
    pub(crate) shelves: [Pages; 3],
    pub(crate) parking: Parking,
    pub(crate) tasks: Tasks,
    pub(crate) replays: Replays,
    pub(crate) results: Results,
}

impl McpState {
    /// `secret`: what replicas share; none for one that only this process knows. `views`: none for that of `/mcp` alone.
    /// `resumable`: how long calls go on without their clients.
    pub(crate) fn new(
        secret: Option<&[u8]>,
        tasks: Tasks,
        views: Option<ViewsConfig>,
        resumable: Duration,
        limits: &Limits,
    ) -> Self {
        Self {
            key: secret.map_or_else(Key::random, Key::of),
            clients: Clients::new(limits),
            views: Arc::new(Views::new(views)),
            pages: Pages::default(),
            shelves: Default::default(),
            parking: Parking::default(),
            tasks,
            replays: Replays::new(resumable, limits),
            results: Results::default(),
        }
    }
}
