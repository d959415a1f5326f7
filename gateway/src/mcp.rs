//! What a gateway knows of clients that speak MCP (Model Context Protocol). It is little: a session is sealed into its own id,
//! so any replica serves it and no restart loses it.
//!
//! - [`revision`]: the revisions of the protocol
//! - [`seal`]: texts that clients keep and cannot forge; [`session`]: ids of sessions made that way
//! - [`clients`]: bounded state of this process: sessions that were ended, calls in flight, levels of log messages
//! - [`parked`]: calls that wait until their clients come back with answers; [`replay`]: streams that clients take up again
//! - [`tasks`]: calls that go on without a request
//! - [`results`]: those that are too long to be sent at once
//! - [`views`]: parts of the catalog at paths of their own; [`pages`]: lists of tools, written once per change

pub(crate) mod clients;
pub(crate) mod pages;
pub(crate) mod parked;
pub(crate) mod replay;
pub(crate) mod results;
pub(crate) mod revision;
pub(crate) mod seal;
pub(crate) mod session;
pub(crate) mod tasks;
pub(crate) mod views;

use std::sync::Arc;

use clients::Clients;
use pages::Pages;
use parked::Parking;
use replay::Replays;
use results::Results;
use seal::Key;
use tasks::{Tasks, Times};
use tokio::sync::Semaphore;
use views::Views;

use crate::config::{Config, TasksConfig};

/// How many clients may listen for changes at a time, over all connections.
const MAX_LISTENERS: usize = 8192;

/// The state of a gateway for MCP.
pub(crate) struct McpState {
    pub(crate) key: Key,
    pub(crate) clients: Clients,
    pub(crate) views: Arc<Views>,
    pub(crate) pages: Pages,
    pub(crate) parking: Parking,
    pub(crate) tasks: Tasks,
    pub(crate) replays: Replays,
    pub(crate) results: Results,
    /// Streams that wait for changes.
    pub(crate) listeners: Arc<Semaphore>,
}

impl McpState {
    /// # Errors
    /// The store of tasks can't be opened.
    pub(crate) fn new(config: &Config) -> std::io::Result<Self> {
        Ok(Self {
            // What replicas share, or what only this process knows.
            key: config.mcp_secret.as_ref().map_or_else(Key::random, |it| Key::of(&it.0)),
            clients: Clients::default(),
            views: Arc::new(Views::new(config.mcp_views.clone())),
            pages: Pages::default(),
            parking: Parking::default(),
            tasks: tasks(&config.mcp_tasks).map_err(std::io::Error::other)?,
            replays: Replays::new(config.mcp_resumable),
            results: Results::default(),
            listeners: Arc::new(Semaphore::new(MAX_LISTENERS)),
        })
    }
}

fn tasks(config: &TasksConfig) -> Result<Tasks, tasks::store::StoreError> {
    let times = Times { after: config.after, ttl: config.lifetime };
    match Tasks::open(config.file.as_deref(), times) {
        Err(error) if config.is_default => {
            tracing::info!(%error, "tasks of MCP clients end with this process");
            Tasks::open(None, times)
        }
        opened => opened,
    }
}
