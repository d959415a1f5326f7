//! An open connection, which runs one transaction at a time.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::TryStreamExt as _;
use futures_util::future::try_join_all;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::{Client, Config, Error, SimpleQueryMessage};

use super::failure::{Failure, describe, judge};
use super::settings::Settings;
use super::values;
use crate::durability::Durability;
use crate::engine::{Rows, Statement, StoreError, Value};

/// The oldest version that is supported, as the server counts.
const OLDEST_VERSION: i64 = 150_000;

/// How long a server may take to accept a connection. One that hangs accepts it, and then says nothing.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);

/// How long a transaction may take. The server ends one that waits for a lock, or whose gateway is gone, before.
///
/// `statement_timeout` must not: a server that waits for its standbys then stops waiting, and confirms what they lack.
const LIMIT: Duration = Duration::from_secs(15);
const SETTINGS: &str = "SET statement_timeout = 0; SET lock_timeout = '10s'; \
                        SET idle_in_transaction_session_timeout = '10s'; \
                        SET default_transaction_isolation = 'read committed'";

const SERVER: &str = "SELECT current_setting('server_version_num'), current_setting('server_version'), \
                      current_setting('fsync'), current_setting('synchronous_commit')";

const DURABILITY: &str = "SELECT current_setting('server_version'), current_setting('synchronous_commit'), \
                          current_setting('synchronous_standby_names'), current_setting('full_page_writes'), \
                          current_setting('fsync')";

/// The maximum number of statements that are sent together.
const MAX_GROUP: usize = 16;

/// A connection to a server that fits.
#[derive(Debug)]
pub(super) struct DatabaseSession {
    name: String,
    client: Client,
    /// Moves bytes until the connection ends.
    driver: JoinHandle<()>,
    /// The statements that the server knows, by their text.
    prepared: HashMap<&'static str, tokio_postgres::Statement>,
    /// Whether the server may have committed the current transaction.
    is_committing: bool,
}

impl DatabaseSession {
    /// Connects to the first server that is a primary, and checks that it fits.
    pub(super) async fn open(settings: &Settings) -> Result<Self, StoreError> {
        let mut refusal = None;
        for (number, server) in settings.servers() {
            match timeout(CONNECT_LIMIT, Self::connect(settings, server)).await {
                Ok(Ok(session)) => {
                    settings.prefer(number);
                    return Ok(session);
                }
                // The first one says most: it served last.
                Ok(Err(error)) => drop(refusal.get_or_insert(error)),
                Err(_) => {
                    let reason = format!("{}: it does not answer in time", settings.name);
                    refusal.get_or_insert(StoreError::Unavailable(reason));
                }
            }
        }
        Err(refusal.unwrap_or_else(|| StoreError::Unavailable(format!("{}: no server", settings.name))))
    }

    async fn connect(settings: &Settings, server: &Config) -> Result<Self, StoreError> {
        let connected = server.connect(settings.tls.clone()).await;
        let (client, connection) = connected.map_err(|error| failure(&settings.name, &error))?;
        let driver = tokio::spawn(async move {
            // Whoever waits for a transaction gets this error, too.
            let _ = connection.await;
        });
        let name = settings.name.clone();
        let session = Self { name, client, driver, prepared: HashMap::new(), is_committing: false };
        session.check(settings).await?;
        let set = session.client.batch_execute(SETTINGS).await;
        set.map_err(|error| failure(&settings.name, &error))?;
        Ok(session)
    }

    /// Refuses a server that is too old, or that loses what it confirmed.
    async fn check(&self, settings: &Settings) -> Result<(), StoreError> {
        let name = &self.name;
        let [number, version, fsync, commit] = self.read_settings(SERVER).await?;
        if number.parse().unwrap_or(0) < OLDEST_VERSION {
            return Err(StoreError::Unusable(format!("{name}: version {version} is too old: use 15 or later")));
        }
        for (setting, value) in [("fsync", fsync), ("synchronous_commit", commit)] {
            if value == "off" && !settings.allows_loss {
                return Err(StoreError::Unusable(format!(
                    "{name}: with {setting} = off it may lose what it has confirmed: set {setting} = on, or add \
                     openskill_unsafe=allow to the URL if operations may get lost"
                )));
            }
        }
        Ok(())
    }

    /// Runs a query that returns one row.
    async fn read_settings<const N: usize>(&self, query: &str) -> Result<[String; N], StoreError> {
        let messages = self.client.simple_query(query).await.map_err(|error| failure(&self.name, &error))?;
        let row = messages.iter().find_map(|it| if let SimpleQueryMessage::Row(row) = it { Some(row) } else { None });
        let column = |number| row.and_then(|it| it.try_get(number).ok().flatten()).unwrap_or_default().to_owned();
        Ok(std::array::from_fn(column))
    }

    /// Says in words what the server's settings mean for an acknowledged operation.
    pub(super) async fn durability(&self) -> Result<Durability, StoreError> {
        let [version, commit, standbys, full_pages, fsync] = self.read_settings(DURABILITY).await?;
        let mut survives = vec!["a crash of the gateways"];
        let mut lacks = Vec::new();
        match (fsync.as_str(), commit.as_str(), standbys.as_str()) {
            ("off", _, _) | (_, "off", _) => {
                lacks.push("fsync or synchronous_commit is off, so a crash of the server loses it");
            }
            (_, "local", _) | (_, _, "") => survives.push("a crash of the server, but not the loss of its disk"),
            _ => survives.push("the loss of the server, if a synchronous standby is promoted"),
        }
        if full_pages == "off" {
            lacks.push("full_page_writes is off, so a loss of power may damage tables");
        }
        let (name, lacks_text) = (&self.name, lacks.join("; "));
        let separator = if lacks.is_empty() { "" } else { "; but " };
        let text = format!(
            "PostgreSQL {version} at {name}: an acknowledged operation survives {}{separator}{lacks_text}",
            survives.join(" and ")
        );
        Ok(Durability { text, is_durable: lacks.is_empty() })
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Runs statements in one transaction. After [`Failure::Lost`] and [`Failure::Unknown`] this session is of no use.
    pub(super) async fn run(&mut self, statements: &[Statement], is_read: bool) -> Result<Vec<Rows>, Failure> {
        self.is_committing = false;
        let outcome = timeout(LIMIT, self.transact(statements)).await;
        let may_have_happened = self.is_committing && !is_read;
        match outcome {
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(Failure::new(&self.name, &error, may_have_happened)),
            Err(_) => {
                let reason = format!("{}: no answer within {} s", self.name, LIMIT.as_secs());
                Err(if may_have_happened { Failure::Unknown(reason) } else { Failure::Lost(reason) })
            }
        }
    }

    async fn transact(&mut self, statements: &[Statement]) -> Result<Vec<Rows>, Error> {
        if let [statement] = statements {
            self.prepare(statement.sql).await?;
            self.is_committing = true;
            return self.send(statements).await;
        }
        self.client.batch_execute("BEGIN").await?;
        match self.run_in_order(statements).await {
            Ok(rows) => {
                self.is_committing = true;
                self.client.batch_execute("COMMIT").await?;
                Ok(rows)
            }
            Err(error) => {
                self.client.batch_execute("ROLLBACK").await?;
                Err(error)
            }
        }
    }

    /// Runs statements. Prepares a new one only after those before it, which may create its tables.
    async fn run_in_order(&mut self, mut statements: &[Statement]) -> Result<Vec<Rows>, Error> {
        let mut rows = Vec::with_capacity(statements.len());
        while let Some(first) = statements.first() {
            self.prepare(first.sql).await?;
            let known = statements.iter().take(MAX_GROUP).take_while(|it| self.prepared.contains_key(it.sql)).count();
            let (group, later) = statements.split_at(known);
            rows.extend(self.send(group).await?);
            statements = later;
        }
        Ok(rows)
    }

    async fn prepare(&mut self, sql: &'static str) -> Result<(), Error> {
        if !self.prepared.contains_key(sql) {
            self.prepared.insert(sql, self.client.prepare(sql).await?);
        }
        Ok(())
    }

    /// Sends prepared statements together. The server runs them in their order.
    async fn send(&self, statements: &[Statement]) -> Result<Vec<Rows>, Error> {
        let prepared = statements.iter().filter_map(|it| Some((self.prepared.get(it.sql)?, &it.values)));
        try_join_all(prepared.map(|(statement, values)| query(&self.client, statement, values))).await
    }
}

impl Drop for DatabaseSession {
    fn drop(&mut self) {
        // The server rolls back whatever is open.
        self.driver.abort();
    }
}

async fn query(client: &Client, statement: &tokio_postgres::Statement, values: &[Value]) -> Result<Rows, Error> {
    let rows = client.query_raw(statement, values).await?;
    rows.and_then(|row| std::future::ready(values::row(&row))).try_collect().await
}

/// Says in words why there is no connection.
fn failure(name: &str, error: &Error) -> StoreError {
    let reason = format!("{name}: {}", describe(error));
    error.code().map_or_else(|| StoreError::Unavailable(reason.clone()), |code| judge(code, reason.clone()))
}
