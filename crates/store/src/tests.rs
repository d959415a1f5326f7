use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::conformance::{check_all, operation};
use crate::operation::{NewOperation, Submission};

/// A folder that is removed when it is dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("openskill-store-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str) -> Location {
        Location::File(self.0.join(name))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sqlite_in_memory_conforms() {
    check_all(async || Store::open(&Location::Memory).await.unwrap()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sqlite_file_conforms() {
    let (folder, number) = (Folder::new("conforms"), AtomicUsize::new(0));
    let name = || format!("{}/store.db", number.fetch_add(1, Ordering::Relaxed));
    check_all(async || Store::open(&folder.file(&name())).await.unwrap()).await;
}

#[tokio::test]
async fn what_was_stored_is_there_after_the_file_is_opened_again() {
    let folder = Folder::new("reopened");
    let location = folder.file("store.db");
    let store = Store::open(&location).await.unwrap();
    let new = NewOperation { request: b"request".to_vec(), ..operation("a", "A") };
    assert_eq!(store.submit(&new).await, Ok(Submission::Stored));
    let held = store.claim("gateway", 60_000, 1).await.unwrap();
    assert!(matches!(Store::open(&location).await, Err(StoreError::Locked(_))), "one gateway at a time");
    drop(store);
    let store = Store::open(&location).await.unwrap();
    assert_eq!(store.request("a").await, Ok(Some(b"request".to_vec())));
    assert_eq!(store.recover().await, Ok(1), "the gateway that held it is gone");
    let again = store.claim("gateway", 60_000, 1).await.unwrap();
    assert!(again[0].epoch > held[0].epoch);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_damaged_and_stays_as_it_is() {
    let folder = Folder::new("garbage");
    let garbage = b"no database ".repeat(1000);
    std::fs::write(folder.0.join("store.db"), &garbage).unwrap();
    let error = Store::open(&folder.file("store.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged(_)), "{error}");
    assert_eq!(std::fs::read(folder.0.join("store.db")).unwrap(), garbage);
}

#[tokio::test]
async fn tables_of_a_newer_version_are_refused() {
    let folder = Folder::new("newer");
    drop(Store::open(&folder.file("store.db")).await.unwrap());
    let insert = |path: &Path| {
        let connection = rusqlite::Connection::open(path).unwrap();
        connection.execute("INSERT INTO openskill_schema VALUES (99)", []).unwrap();
    };
    insert(&folder.0.join("store.db"));
    let error = Store::open(&folder.file("store.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
}

#[tokio::test]
async fn each_kind_of_store_says_what_it_survives() {
    let memory = Location::Memory.durability().await.unwrap();
    assert!(!memory.is_durable && memory.text.contains("lost"), "{memory:?}");
    let path = std::env::temp_dir().join("openskill-absent/operations.sqlite");
    let file = Location::File(path.clone()).durability().await.unwrap();
    assert!(file.text.contains("SQLite file") && !path.exists(), "{file:?}");
    let gone = Location::Postgres("postgres://u:secret@127.0.0.1:1/d".to_owned()).durability().await.unwrap_err();
    assert!(matches!(&gone, StoreError::Unavailable(reason) if !reason.contains("secret")), "{gone:?}");
}
