//! The store on PostgreSQL: real servers, which stop and break.

use std::io::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use openskill_store::conformance::{check_all, operation};
use openskill_store::engine::StoreError;
use openskill_store::operation::{StoredEvent, Submission};
use openskill_store::{Location, Store};
use openskill_tests::certs::Certs;
use openskill_tests::postgres::{Postgres, Server};
use openskill_tests::processes;
use openskill_tests::system::PATIENCE;
use openskill_tests::wait::until_true;
use rustix::process::Signal;

async fn open(url: &str) -> Result<Store, StoreError> {
    Store::open(&Location::Postgres(url.to_owned())).await
}

async fn open_new(server: &Server) -> Store {
    open(&server.url(&server.database())).await.unwrap()
}

async fn conforms(programs: &Postgres) {
    let server = Server::start(programs).await;
    check_all(async || open_new(&server).await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_conforms() {
    let Some(programs) = Postgres::or_skip() else { return };
    conforms(&programs).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_postgres_that_is_supported_conforms() {
    let Some(programs) = Postgres::oldest_or_skip() else { return };
    conforms(&programs).await;
}

#[tokio::test]
async fn gateways_that_start_at_once_create_the_tables_once() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let url = server.url(&server.database());
    let stores = futures_util::future::join_all((0..5).map(|_| open(&url))).await;
    for (number, store) in stores.into_iter().enumerate() {
        let id = number.to_string();
        assert_eq!(store.unwrap().submit(&operation(&id, "A")).await, Ok(Submission::Stored));
    }
}

#[tokio::test]
async fn a_server_says_what_an_acknowledged_operation_survives() {
    let Some(programs) = Postgres::or_skip() else { return };
    for (settings, wanted, is_durable) in [
        (&["full_page_writes = on"][..], "a crash of the server, but not the loss of its disk", true),
        (&["full_page_writes = off"], "full_page_writes is off", false),
    ] {
        let server = Server::start_with(&programs, settings).await;
        let found = Location::Postgres(server.url("postgres")).durability().await.unwrap();
        assert!(found.text.contains(wanted) && found.is_durable == is_durable, "{found:?}");
    }
}

/// The text of the error with which a store is refused as unusable.
async fn refusal(url: &str) -> String {
    let Err(StoreError::Unusable(reason)) = open(url).await else { panic!("{url} is used") };
    assert!(!reason.contains("secret"), "{reason}");
    reason
}

#[tokio::test]
async fn servers_that_do_not_fit_are_refused_with_the_reason() {
    let Some(programs) = Postgres::or_skip() else { return };
    let mut server = Server::start_with(&programs, &["fsync = off"]).await;
    let url = server.url(&server.database());
    let reason = refusal(&url).await;
    assert!(reason.contains("set fsync = on"), "{reason}");
    open(&format!("{url}?openskill_unsafe=allow")).await.unwrap();

    server.stop();
    server.write("data/postgresql.auto.conf", "");
    server.start_again().await;
    open(&url).await.unwrap();
    let reason = refusal(&format!("{url}?options=-c%20synchronous_commit%3Doff")).await;
    assert!(reason.contains("set synchronous_commit = on"), "{reason}");
    let reason = refusal(&url.replace("openskill:", "stranger:")).await;
    assert!(reason.contains("stranger"), "{reason}");
    let reason = refusal(&server.url("none")).await;
    assert!(reason.contains("\"none\" does not exist"), "{reason}");

    // A function of its own makes the server look older.
    let old = server.database();
    let function = "CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE sql AS $$ SELECT CASE $1 \
                    WHEN 'server_version_num' THEN '140011' WHEN 'server_version' THEN '14.11' \
                    ELSE pg_catalog.current_setting($1) END $$";
    server.query(&old, function);
    server.query(&old, &format!("ALTER DATABASE {old} SET search_path = public, pg_catalog"));
    let reason = refusal(&server.url(&old)).await;
    assert!(reason.contains("version 14.11 is too old: use 15 or later"), "{reason}");
}

#[tokio::test]
async fn a_certificate_is_checked_if_tls_is_required() {
    let Some(programs) = Postgres::oldest_or_skip() else { return };
    let (certs, mut server) = (Certs::make(), Server::start(&programs).await);
    let url = server.url(&server.database());
    let Err(StoreError::Unavailable(reason)) = open(&format!("{url}?sslmode=require")).await else { panic!() };
    assert!(reason.contains("does not support TLS"), "{reason}");

    server.stop();
    let (certificate, key) = (server.write("server.pem", certs.read("gateway.pem")), certs.read("gateway.key"));
    let key = server.write("server.key", key);
    let (certificate, key) = (certificate.display(), key.display());
    let settings = format!("ssl = on\nssl_cert_file = '{certificate}'\nssl_key_file = '{key}'\n");
    server.write("data/postgresql.auto.conf", settings);
    server.start_again().await;
    let encrypted = async |url: &str| {
        let _store = open(url).await.unwrap();
        let backend = "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                       WHERE application_name = 'openskill'";
        server.query("postgres", backend)
    };
    assert_eq!(encrypted(&url).await, "t", "TLS is preferred");
    assert_eq!(encrypted(&format!("{url}?sslrootcert={}", certs.file("ca.pem"))).await, "t");
    assert_eq!(encrypted(&format!("{url}?sslmode=disable")).await, "f");
    let Err(StoreError::Unavailable(reason)) = open(&format!("{url}?sslmode=require")).await else { panic!() };
    assert!(reason.contains("invalid peer certificate"), "{reason}");
}

const ROW: &str = "SELECT id FROM operations WHERE id = 'a' FOR UPDATE";
const TABLE: &str = "LOCK TABLE operations IN EXCLUSIVE MODE";

/// A transaction of somebody else, which holds locks until it is dropped.
struct Lock(Child);

impl Lock {
    async fn hold(server: &Server, database: &str, sql: &str) -> Self {
        let mut lock = Self(server.psql(database).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap());
        writeln!(lock.0.stdin.as_mut().unwrap(), "BEGIN; {sql};").unwrap();
        let holding = "SELECT query FROM pg_stat_activity WHERE state = 'idle in transaction'";
        until_true("the lock is held", PATIENCE, || server.query("postgres", holding) == format!("{sql};")).await;
        lock
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Kills the server's process of the transaction that waits for a lock. The server then restarts by itself.
async fn kill_waiting(server: &Server) {
    let waiting = "SELECT pid FROM pg_stat_activity WHERE application_name = 'openskill' AND wait_event_type = 'Lock'";
    until_true("a transaction waits", PATIENCE, || !server.query("postgres", waiting).is_empty()).await;
    processes::send(server.query("postgres", waiting).parse().unwrap(), Signal::KILL);
}

/// Tries again while the server restarts.
async fn eventually<T>(attempt: impl AsyncFn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    let begun = Instant::now();
    loop {
        match attempt().await {
            Err(StoreError::Unavailable(_)) if begun.elapsed() < PATIENCE => {}
            outcome => return outcome,
        }
    }
}

#[tokio::test]
async fn a_connection_that_breaks_leaves_no_doubt_about_what_happened() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let database = server.database();
    let store = open(&server.url(&database)).await.unwrap();
    store.submit(&operation("a", "A")).await.unwrap();
    let claim = store.claim("gateway", 60_000, 1).await.unwrap().pop().unwrap();

    // Several statements did not happen while COMMIT was not sent.
    let lock = Lock::hold(&server, &database, ROW).await;
    let append = async || {
        let event = |number| StoredEvent { number, event: Vec::new() };
        store.append(claim.fence(), vec![event(1), event(2)]).await
    };
    let appended = tokio::join!(append(), kill_waiting(&server)).0;
    assert!(matches!(appended, Ok(()) | Err(StoreError::Unavailable(_))), "{appended:?}");
    drop(lock);
    assert_eq!(eventually(append).await, Ok(()));
    assert_eq!(store.events("a", 0, 10).await.unwrap().len(), 2);

    // One statement may have happened.
    let lock = Lock::hold(&server, &database, ROW).await;
    let started = tokio::join!(store.start(claim.fence()), kill_waiting(&server)).0;
    assert!(matches!(started, Err(StoreError::Unknown(_))), "{started:?}");
    drop(lock);
    assert_eq!(eventually(async || store.start(claim.fence()).await).await, Ok(true), "it had not happened");
    assert_eq!(store.get("a").await.unwrap().unwrap().0.runs, 1);
}

#[tokio::test]
async fn what_was_confirmed_survives_a_crash_and_calls_fail_soon_while_the_server_is_away() {
    let Some(programs) = Postgres::or_skip() else { return };
    let mut server = Server::start(&programs).await;
    let store = open_new(&server).await;
    let mut confirmed = Vec::new();
    let crash = Instant::now() + Duration::from_millis(500);
    while Instant::now() < crash {
        let id = confirmed.len().to_string();
        assert_eq!(store.submit(&operation(&id, "A")).await, Ok(Submission::Stored));
        confirmed.push(id);
    }
    server.stop();
    let begun = Instant::now();
    let submit = async |number: usize| store.submit(&operation(&format!("lost-{number}"), "A")).await;
    for outcome in futures_util::future::join_all((0..20).map(submit)).await {
        assert!(matches!(outcome, Err(StoreError::Unavailable(_) | StoreError::Unknown(_))), "{outcome:?}");
    }
    assert!(begun.elapsed() < Duration::from_secs(12), "{:?}", begun.elapsed());
    server.start_again().await;
    for id in &confirmed {
        assert!(store.get(id).await.unwrap().is_some(), "{id} is gone");
    }
    assert_eq!(store.submit(&operation("new", "A")).await, Ok(Submission::Stored));
}

#[tokio::test]
async fn a_caller_that_goes_away_cancels_no_transaction() {
    let Some(programs) = Postgres::or_skip() else { return };
    let server = Server::start(&programs).await;
    let database = server.database();
    let store = open(&server.url(&database)).await.unwrap();
    let lock = Lock::hold(&server, &database, TABLE).await;
    let new = operation("a", "A");
    let gone = tokio::time::timeout(Duration::from_millis(300), store.submit(&new)).await;
    assert!(gone.is_err());
    drop(lock);
    until_true("it is stored", PATIENCE, || server.query(&database, "SELECT id FROM operations") == "a").await;
}
