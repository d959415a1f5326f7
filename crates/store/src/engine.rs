//! Runs SQL statements. Both engines understand the same text, with the parameters `$1`, `$2` and so on.

use std::fmt::Debug;

use futures_util::future::BoxFuture;

/// A database that runs transactions.
///
/// Dropping a future does not cancel its transaction. Whoever must know the outcome waits for it.
pub trait Engine: Debug + Send + Sync {
    /// Runs statements in one transaction, and returns the rows of each. Returns once the transaction is durable.
    ///
    /// # Errors
    /// The transaction did not happen, except with [`StoreError::Unknown`]: then it may have happened.
    fn write(&self, statements: Vec<Statement>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>>;

    /// Runs a statement that changes nothing. Sees all transactions that ended before.
    ///
    /// # Errors
    /// The database can't be read.
    fn read(&self, statement: Statement) -> BoxFuture<'_, Result<Rows, StoreError>>;

    /// Whether several gateways use the database at the same time.
    fn is_shared(&self) -> bool;
}

/// The rows that a statement returns.
pub type Rows = Vec<Row>;

/// A statement with its parameters.
#[derive(Debug, Clone)]
pub struct Statement {
    pub(crate) sql: &'static str,
    pub(crate) values: Vec<Value>,
}

impl Statement {
    pub(crate) fn new<const N: usize>(sql: &'static str, values: [Value; N]) -> Self {
        Self { sql, values: values.into() }
    }
}

/// A value in a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Null,
    /// `BIGINT`.
    Integer(i64),
    /// `TEXT`.
    Text(String),
    /// `BYTEA`.
    Bytes(Vec<u8>),
}

impl From<i64> for Value {
    fn from(value: i64) -> Self {
        Self::Integer(value)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<Vec<u8>> for Value {
    fn from(value: Vec<u8>) -> Self {
        Self::Bytes(value)
    }
}

/// One row of a result, read from left to right.
#[derive(Debug)]
pub struct Row(pub(crate) std::vec::IntoIter<Value>);

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Self {
        Self(values.into_iter())
    }

    /// Returns the next column as a number.
    pub(crate) fn integer(&mut self) -> Result<i64, StoreError> {
        match self.0.next() {
            Some(Value::Integer(value)) => Ok(value),
            other => Err(unexpected("a number", other.as_ref())),
        }
    }

    /// Returns the next column as a number, or None if it has no value.
    pub(crate) fn optional_integer(&mut self) -> Result<Option<i64>, StoreError> {
        match self.0.next() {
            Some(Value::Null) => Ok(None),
            Some(Value::Integer(value)) => Ok(Some(value)),
            other => Err(unexpected("a number", other.as_ref())),
        }
    }

    /// Returns the next column as text.
    pub(crate) fn text(&mut self) -> Result<String, StoreError> {
        match self.0.next() {
            Some(Value::Text(value)) => Ok(value),
            other => Err(unexpected("text", other.as_ref())),
        }
    }

    /// Returns the next column as bytes. Empty if it has no value.
    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>, StoreError> {
        match self.0.next() {
            Some(Value::Null) => Ok(Vec::new()),
            Some(Value::Bytes(value)) => Ok(value),
            other => Err(unexpected("bytes", other.as_ref())),
        }
    }
}

fn unexpected(wanted: &str, value: Option<&Value>) -> StoreError {
    let kind = match value {
        None => "nothing",
        Some(Value::Null) => "no value",
        Some(Value::Integer(_)) => "a number",
        Some(Value::Text(_)) => "text",
        Some(Value::Bytes(_)) => "bytes",
    };
    StoreError::Damaged(format!("a column contains {kind} instead of {wanted}"))
}

/// Why the store did not do something. Messages name no password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It can't be reached or written now. Nothing happened.
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    /// The connection broke before the outcome was known.
    #[error("the store did not confirm a change, which may have happened: {0}")]
    Unknown(String),
    /// The data can't be read.
    #[error("the store is damaged: {0}. Restore a backup, or move it away to begin with an empty one")]
    Damaged(String),
    /// Another process uses the file.
    #[error("the store {0} is used by another gateway: stop it, or set OPENSKILL_STORE to another file")]
    Locked(String),
    /// A newer openskill changed the tables.
    #[error("the store has tables of version {found}, and this openskill knows version {known}: use a newer one")]
    Newer {
        /// The version of the tables.
        found: i64,
        /// The newest version that this program can use.
        known: i64,
    },
    /// A blob is larger than what the database takes, in bytes.
    #[error("a result has a part of more than {0} bytes: set OPENSKILL_BLOBS to a directory that the gateways share")]
    TooLarge(u64),
    /// The engine does not fit.
    #[error("the store can't be used: {0}")]
    Unusable(String),
}
