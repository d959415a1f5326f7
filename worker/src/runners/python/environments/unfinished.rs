//! An entry of a store that is being built.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::store::Store;

/// The interval between checks whether another worker finished an entry.
const STEP: Duration = Duration::from_millis(100);

/// An unfinished entry and its lock. Dropping it removes the entry unless it was published, and blocks on the disk.
pub(crate) struct UnfinishedEntry {
    store: Store,
    key: String,
    folder: PathBuf,
    _lock: File,
}

impl UnfinishedEntry {
    /// Waits until no other process builds the entry with this key. Does not create the entry's folder.
    ///
    /// # Errors
    /// Fails if the lock can't be created, or if the remains of a killed worker can't be removed.
    pub(crate) async fn begin(store: &Store, key: &str) -> io::Result<Self> {
        let lock = loop {
            match store.lock(key)? {
                Some(lock) => break lock,
                None => tokio::time::sleep(STEP).await,
            }
        };
        let (store, key) = (store.clone(), key.to_owned());
        // This may remove many files. The closure takes the lock, which must outlive the removal even if this
        // future is dropped.
        let begun = tokio::task::spawn_blocking(move || {
            let folder = store.begin(&key)?;
            Ok(Self { store, key, folder, _lock: lock })
        });
        begun.await.map_err(io::Error::other)?
    }

    /// Returns the folder to build the entry in.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Publishes the entry. Blocks on the disk.
    ///
    /// # Errors
    /// Fails if the disk is full or a file can't be changed.
    pub(crate) fn publish(&self, record: &str) -> io::Result<PathBuf> {
        self.store.publish(&self.key, record)
    }
}

impl Drop for UnfinishedEntry {
    fn drop(&mut self) {
        self.store.give_up(&self.key);
    }
}
