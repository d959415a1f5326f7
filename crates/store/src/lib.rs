//! What gateways keep of calls that outlive them: operations, their events and their results, and idempotency keys.
//!
//! ```text
//! gateway ──> Store (operations, events: one SQL for both engines) ──> Engine ──> SQLite: a writer thread, one file
//!                                                                              └> PostgreSQL: a task for each connection
//! ```
//!
//! The store decides by writing. Each decision is one statement, or one transaction of statements whose conditions
//! name the state that they expect, so that of two gateways only one succeeds. A gateway holds an operation for a
//! lease and an epoch: a write with an older epoch changes nothing.
//!
//! - [`operation`]: the rows that gateways see
//! - [`operations`]: what gateways do with them; [`deliveries`]: webhooks, which tell of their ends
//! - [`keys`]: the idempotency keys of calls that are not operations
//! - [`questions`]: what their skills ask, and the answers
//! - [`tasks`]: calls that become operations while they run
//! - [`circuits`] and [`rates`]: what gateways that share a store have counted together
//! - [`conversations`]: logs of an agent's conversations
//! - [`blobs`]: the large parts of their results; [`retention`]: how much is kept
//! - `blob_folder`: files with their content
//! - [`page`]: where a page of a list ends
//! - [`durability`]: what an acknowledged operation survives
//! - [`engine`]: runs statements; [`sqlite`] and [`postgres`] implement it; [`observed`] measures it
//! - `clock`: the time of the store
//! - `schema`: the tables, and how older ones become newer ones
//! - `conformance`: what every engine must do, as checks for tests

mod blob_folder;
pub mod blobs;
pub mod circuits;
mod clock;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod conversations;
pub mod deliveries;
pub mod durability;
pub mod engine;
pub mod keys;
pub mod observed;
pub mod operation;
pub mod operations;
pub mod page;
pub mod postgres;
pub mod questions;
pub mod rates;
pub mod retention;
mod schema;
pub mod sqlite;
mod statements;
pub mod tasks;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use blob_folder::BlobFolder;
use clock::DatabaseClock;
use durability::Durability;
use engine::{Engine, StoreError};
use observed::{ObservedEngine, StoreObserver};

/// Where a store is.
#[derive(Clone, PartialEq, Eq)]
pub enum Location {
    /// In memory. Everything is lost when the process ends.
    Memory,
    /// In a SQLite file, which one gateway uses at a time.
    File(PathBuf),
    /// In a PostgreSQL database, which gateways share. The text is its URL, which may contain a password.
    Postgres(String),
}

impl Location {
    /// Finds out what an acknowledged operation survives. Changes nothing, and does not disturb a gateway that uses the
    /// store.
    ///
    /// # Errors
    /// The store can't be reached, or can't be used at all.
    pub async fn durability(&self) -> Result<Durability, StoreError> {
        match self {
            Self::Memory => Ok(durability::memory()),
            Self::File(path) => durability::file(path),
            Self::Postgres(url) => postgres::durability(url).await,
        }
    }
}

impl fmt::Debug for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory => f.write_str("Memory"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
            Self::Postgres(_) => f.debug_tuple("Postgres").finish_non_exhaustive(),
        }
    }
}

/// An open store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    /// None if gateways don't share the store.
    clock: Option<Arc<DatabaseClock>>,
    /// Where the content of blobs is. None: in the database.
    blobs: Option<BlobFolder>,
}

impl Store {
    /// Opens a store, and creates or updates its tables.
    ///
    /// # Errors
    /// The store can't be reached or used, another gateway uses the file, or a newer openskill wrote it.
    pub async fn open(location: &Location) -> Result<Self, StoreError> {
        let engine: Arc<dyn Engine> = match location {
            Location::Memory => Arc::new(sqlite::Sqlite::in_memory()?),
            Location::File(path) => Arc::new(sqlite::Sqlite::open(path)?),
            Location::Postgres(url) => Arc::new(postgres::Postgres::connect(url).await?),
        };
        schema::migrate(&*engine).await?;
        let clock = if engine.is_shared() { Some(DatabaseClock::follow(&engine).await?) } else { None };
        let blobs = if let Location::File(path) = location { Some(BlobFolder::beside(path)) } else { None };
        let store = Self { engine, clock, blobs };
        store.remove_unknown_files().await?;
        Ok(store)
    }

    /// The store's time, in milliseconds since 1970. Gateways that share the store agree on it.
    #[must_use]
    pub fn now_ms(&self) -> i64 {
        self.now_us() / 1000
    }

    /// The same in microseconds.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        self.clock.as_ref().map_or_else(clock::local_us, |it| it.now_us())
    }

    /// Has `observer` hear about the transactions from now on.
    #[must_use]
    pub fn observed_by(self, observer: Arc<dyn StoreObserver>) -> Self {
        Self { engine: Arc::new(ObservedEngine { engine: self.engine, observer }), ..self }
    }

    /// Whether gateways share this store. If not, whatever another gateway held is free as soon as the store is open.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }
}
