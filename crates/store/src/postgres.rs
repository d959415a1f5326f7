//! PostgreSQL 15 or later: one database, many gateways.

use futures_util::future::BoxFuture;

use crate::engine::{Engine, Rows, Statement, StoreError};

/// Connections to a database.
#[derive(Debug)]
pub struct Postgres {}

impl Postgres {
    /// Connects to the database of a URL.
    ///
    /// # Errors
    /// The URL is invalid, the server can't be reached, or it is too old.
    pub async fn connect(_url: &str) -> Result<Self, StoreError> {
        todo!()
    }
}

impl Engine for Postgres {
    fn write(&self, _statements: Vec<Statement>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>> {
        todo!()
    }

    fn read(&self, _statement: Statement) -> BoxFuture<'_, Result<Rows, StoreError>> {
        todo!()
    }

    fn is_shared(&self) -> bool {
        true
    }
}
