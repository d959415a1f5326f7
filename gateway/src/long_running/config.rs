//! The settings of operations.

use std::path::PathBuf;
use std::time::Duration;

use openskill_store::Location;

pub use super::webhooks::{SigningKeys, WebhookConfig};

/// Where operations are stored, and how many.
#[derive(Debug, Clone)]
pub struct OperationsConfig {
    /// The store. If None, there are no operations.
    pub store: Option<Location>,
    /// Whether `store` is the default file. If so, and it can't be opened, operations are unavailable.
    pub is_default: bool,
    /// The maximum number of operations that wait in the store.
    pub max_waiting: usize,
    /// The maximum number of operations that this gateway runs at once.
    pub max_running: usize,
    /// How long an operation is kept after it has ended.
    pub keep: Duration,
    /// The same for tasks of MCP clients.
    pub keep_tasks: Duration,
    /// How many bytes ended operations occupy at most. Beyond that, the oldest ones are removed.
    pub keep_bytes: u64,
    /// The folder of the large parts of results, which all gateways with this store share. If None, a file has its own,
    /// and a database has them in tables.
    pub blobs: Option<PathBuf>,
    /// How ends of operations are told to servers. If None, they are not.
    pub webhooks: Option<WebhookConfig>,
}
