//! SQLite: one file, one gateway.
//!
//! One thread writes. It takes all transactions that wait and commits them together, so that one `fsync` serves many.
//! Another thread reads, on a connection that sees the last commit.

use std::fs::{File, TryLockError};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;

use futures_util::future::BoxFuture;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, ToSql};
use tokio::sync::{mpsc, oneshot};

use crate::engine::{Engine, Row, Rows, Statement, StoreError, Value};

/// The maximum number of transactions that are committed together, and that wait.
const MAX_GROUP: usize = 256;
const MAX_WAITING: usize = 1024;

/// Readers wait this long for a writer that moves the log into the file.
const BUSY_MS: u64 = 5_000;

/// A transaction on its way to a thread.
#[derive(Debug)]
struct Job {
    statements: Vec<Statement>,
    reply: oneshot::Sender<Result<Vec<Rows>, StoreError>>,
}

/// An open database. Its threads end when it is dropped.
#[derive(Debug)]
pub struct Sqlite {
    writer: mpsc::Sender<Job>,
    /// The same as `writer` if the database is in memory.
    reader: mpsc::Sender<Job>,
    /// Keeps other gateways out.
    _lock: Option<File>,
}

impl Sqlite {
    /// Opens an empty database in memory.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn in_memory() -> Result<Self, StoreError> {
        let name = "memory";
        let connection = Connection::open_in_memory().map_err(|error| failure(name, &error))?;
        let writer = serve("openskill-store", connection, name.to_owned())?;
        Ok(Self { reader: writer.clone(), writer, _lock: None })
    }

    /// Opens a file, or creates one that only its owner can read. The folder is created, too.
    ///
    /// # Errors
    /// The file can't be used, is not a database, is damaged, or another gateway uses it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let name = path.display().to_string();
        let lock = lock(path, &name)?;
        let writer = connect(path, &name, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let settings = "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = OFF;";
        writer.execute_batch(settings).map_err(|error| failure(&name, &error))?;
        let reader = connect(path, &name, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let writer = serve("openskill-store", writer, name.clone())?;
        let reader = serve("openskill-store-reader", reader, name)?;
        Ok(Self { writer, reader, _lock: Some(lock) })
    }

    async fn run(thread: &mpsc::Sender<Job>, statements: Vec<Statement>) -> Result<Vec<Rows>, StoreError> {
        let (reply, outcome) = oneshot::channel();
        let ended = || StoreError::Unavailable("its thread has ended".to_owned());
        thread.send(Job { statements, reply }).await.map_err(|_| ended())?;
        outcome.await.map_err(|_| ended())?
    }
}

impl Engine for Sqlite {
    fn write(&self, statements: Vec<Statement>) -> BoxFuture<'_, Result<Vec<Rows>, StoreError>> {
        Box::pin(Self::run(&self.writer, statements))
    }

    fn read(&self, statement: Statement) -> BoxFuture<'_, Result<Rows, StoreError>> {
        Box::pin(async { Ok(Self::run(&self.reader, vec![statement]).await?.pop().unwrap_or_default()) })
    }

    fn is_shared(&self) -> bool {
        false
    }
}

/// Creates the folder and the file, and locks a file beside it. The lock ends with the process.
fn lock(path: &Path, name: &str) -> Result<File, StoreError> {
    let unusable = |error: std::io::Error| StoreError::Unusable(format!("{name}: {error}"));
    if let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unusable)?;
    }
    let private = |path: &Path| File::options().create(true).read(true).append(true).mode(0o600).open(path);
    private(path).map_err(unusable)?;
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let lock = private(&PathBuf::from(beside)).map_err(unusable)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked(name.to_owned())),
        Err(TryLockError::Error(error)) => Err(unusable(error)),
    }
}

fn connect(path: &Path, name: &str, flags: OpenFlags) -> Result<Connection, StoreError> {
    let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| failure(name, &error))?;
    let busy = connection.busy_timeout(std::time::Duration::from_millis(BUSY_MS));
    busy.map_err(|error| failure(name, &error))?;
    Ok(connection)
}

/// Starts a thread that runs transactions until all senders are dropped.
fn serve(thread: &str, mut connection: Connection, name: String) -> Result<mpsc::Sender<Job>, StoreError> {
    let (sender, mut jobs) = mpsc::channel(MAX_WAITING);
    let work = move || {
        while let Some(first) = jobs.blocking_recv() {
            let mut group = vec![first];
            while group.len() < MAX_GROUP
                && let Ok(next) = jobs.try_recv()
            {
                group.push(next);
            }
            commit(&mut connection, &name, group);
        }
    };
    let spawned = thread::Builder::new().name(thread.to_owned()).spawn(work);
    spawned.map_err(|error| StoreError::Unusable(format!("its thread can't be started: {error}")))?;
    Ok(sender)
}

/// Runs transactions and commits them together. One that fails does not affect the others.
fn commit(connection: &mut Connection, name: &str, group: Vec<Job>) {
    let is_read_only = connection.is_readonly("main").unwrap_or(false);
    let run_all = |connection: &mut Connection| -> Result<Vec<Result<Vec<Rows>, StoreError>>, rusqlite::Error> {
        connection.execute_batch(if is_read_only { "BEGIN" } else { "BEGIN IMMEDIATE" })?;
        let mut outcomes = Vec::with_capacity(group.len());
        for job in &group {
            outcomes.push(run(connection, name, &job.statements));
            if connection.is_autocommit() {
                // A full disk, for example, ended the common transaction. Later jobs would commit one by one.
                break;
            }
        }
        connection.execute_batch("COMMIT")?;
        Ok(outcomes)
    };
    match run_all(connection) {
        Ok(outcomes) => {
            for (job, outcome) in group.into_iter().zip(outcomes) {
                // Fails if nobody waits for the outcome.
                let _ = job.reply.send(outcome);
            }
        }
        Err(error) => {
            if !connection.is_autocommit() {
                let _ = connection.execute_batch("ROLLBACK");
            }
            let error = failure(name, &error);
            tracing::error!(%error, "a transaction of the store failed");
            for job in group {
                let _ = job.reply.send(Err(error.clone()));
            }
        }
    }
}

/// Runs one transaction inside of the common one.
fn run(connection: &Connection, name: &str, statements: &[Statement]) -> Result<Vec<Rows>, StoreError> {
    let attempt = || -> Result<Vec<Rows>, rusqlite::Error> {
        connection.execute_batch("SAVEPOINT job")?;
        let rows = statements.iter().map(|it| query(connection, it)).collect::<Result<_, _>>()?;
        connection.execute_batch("RELEASE job")?;
        Ok(rows)
    };
    attempt().map_err(|error| {
        // Fails if the error already ended the common transaction, whose commit then fails, too.
        let _ = connection.execute_batch("ROLLBACK TO job; RELEASE job");
        failure(name, &error)
    })
}

fn query(connection: &Connection, statement: &Statement) -> Result<Rows, rusqlite::Error> {
    // SQLite needs no lock on rows, because one thread writes.
    let sql = statement.sql.replace('$', "?").replace("FOR UPDATE SKIP LOCKED", "").replace("FOR SHARE", "");
    let mut prepared = connection.prepare(&sql)?;
    let columns = prepared.column_count();
    let values: Vec<&dyn ToSql> = statement.values.iter().map(|it| it as &dyn ToSql).collect();
    let mut rows = prepared.query(&*values)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let values = (0..columns).map(|column| row.get_ref(column).map(Value::from));
        found.push(Row::new(values.collect::<Result<_, _>>()?));
    }
    Ok(found)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Integer(value) => ValueRef::Integer(*value),
            Self::Text(value) => ValueRef::Text(value.as_bytes()),
            Self::Bytes(value) => ValueRef::Blob(value),
        }))
    }
}

impl From<ValueRef<'_>> for Value {
    fn from(value: ValueRef<'_>) -> Self {
        match value {
            ValueRef::Null => Self::Null,
            ValueRef::Integer(value) => Self::Integer(value),
            // No statement computes with fractions.
            ValueRef::Real(value) => Self::Integer(value as i64),
            ValueRef::Text(value) => Self::Text(String::from_utf8_lossy(value).into_owned()),
            ValueRef::Blob(value) => Self::Bytes(value.to_owned()),
        }
    }
}

/// Says in words why SQLite failed.
fn failure(name: &str, error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Damaged(format!("{name}: {error}")),
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(format!("{name}: no space is left on the device")),
        _ => StoreError::Unavailable(format!("{name}: {error}")),
    }
}
