//! PostgreSQL 15 or later: one database, many gateways.
//!
//! ```text
//! callers ──> queue ──> a task for each connection: waits for a server, runs one transaction at a time
//! ```
//!
//! The tasks own the transactions: a caller that goes away cancels none. While there is no server, each call fails
//! after [`PATIENCE`].
//!
//! - `settings`: what the URL says; `tls`: encrypted connections
//! - `connection`: one task, which connects again when it has to
//! - `session`: an open connection, which runs transactions; `values`: their values
//! - `failure`: whether a transaction that failed may have happened

mod connection;
mod failure;
mod session;
mod settings;
#[cfg(test)]
mod tests;
mod tls;
mod values;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{Instant, timeout_at};

use crate::durability::Durability;
use crate::engine::{Engine, Rows, Statement, StoreError};
use connection::{Connection, Job};
use session::DatabaseSession;
use settings::Settings;

/// The connections of one gateway.
const CONNECTIONS: usize = 4;

/// The maximum number of transactions that wait for a connection.
const MAX_WAITING: usize = 1024;

/// How long a transaction waits for its turn and for a server.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// Finds out what an acknowledged operation survives.
pub(crate) async fn durability(url: &str) -> Result<Durability, StoreError> {
    let settings = Settings::parse(url)?;
    DatabaseSession::open(&settings).await?.durability().await
}

/// Connections to a database. They end when this is dropped.
pub struct Postgres {
    name: String,
    jobs: mpsc::Sender<Job>,
}

impl Postgres {
    /// Connects to the database of a URL. The connections live on the runtime that calls this.
    ///
    /// # Errors
    /// The URL is invalid, the server can't be reached, or it does not fit: it is too old, or loses what it confirmed.
    pub async fn connect(url: &str) -> Result<Self, StoreError> {
        let settings = Arc::new(Settings::parse(url)?);
        let name = settings.name.clone();
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let waiting = Arc::new(Mutex::new(waiting));
        let mut first = Connection::new(Arc::clone(&settings));
        first.open(Instant::now() + PATIENCE).await?;
        let others = std::iter::repeat_with(|| Connection::new(Arc::clone(&settings))).take(CONNECTIONS - 1);
        for connection in std::iter::once(first).chain(others) {
            tokio::spawn(connection.serve(Arc::clone(&waiting)));
        }
        Ok(Self { name, jobs })
    }

    async fn run(&self, statements: Vec<Statement>, is_read: bool) -> Result<Vec<Rows>, StoreError> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + PATIENCE;
        let (reply, outcome) = oneshot::channel();
        let unavailable = |reason| StoreError::Unavailable(format!("{}: {reason}", self.name));
        let place = timeout_at(deadline, self.jobs.reserve()).await;
        let place = place.map_err(|_| unavailable("too many transactions wait"))?;
        let place = place.map_err(|_| unavailable("its connections have ended"))?;
        place.send(Job { statements, is_read, deadline, reply });
        outcome.await.unwrap_or_else(|_| Err(StoreError::Unknown(format!("{}: its connection has ended", self.name))))
    }
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Engine for Postgres {
    fn write(&self, statements: Vec<Statement>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>> {
        Box::pin(self.run(statements, false))
    }

    fn read(&self, statement: Statement) -> BoxFuture<'_, Result<Rows, StoreError>> {
        Box::pin(async { Ok(self.run(vec![statement], true).await?.pop().unwrap_or_default()) })
    }

    fn is_shared(&self) -> bool {
        true
    }
}
