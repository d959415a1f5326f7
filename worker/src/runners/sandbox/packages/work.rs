//! An unfinished entry of the store. It is locked, and removed unless it is published.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::runners::python::environments::store::Store;
use crate::schedule::Slot;

/// The interval between checks whether another worker finished an entry.
const STEP: Duration = Duration::from_millis(100);

/// An unfinished entry. Dropping the last reference removes it, unless it was published.
pub(super) struct Work {
    store: Store,
    key: String,
    folder: PathBuf,
    lock: Option<File>,
    /// Held until all processes of the call have ended.
    _slot: Option<Arc<Slot>>,
}

impl Work {
    /// Waits until no other process builds the entry with this key. Creates its folder, which only the worker's
    /// user can enter.
    ///
    /// # Errors
    /// Fails if the folder or its lock can't be created.
    pub(super) async fn begin(store: &Store, key: &str, slot: Option<Arc<Slot>>) -> io::Result<Arc<Self>> {
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
            DirBuilder::new().mode(0o700).create(&folder)?;
            Ok(Arc::new(Self { store, key, folder, lock: Some(lock), _slot: slot }))
        });
        begun.await.map_err(io::Error::other)?
    }

    /// Creates a folder that a jailed process fills. The process runs as another user and reaches the folder only
    /// through a mount.
    ///
    /// # Errors
    /// Fails if the folder can't be created.
    pub(super) fn make(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join(name);
        std::fs::create_dir(&folder)?;
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777))?;
        folder.canonicalize()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Publishes the entry. Blocks on the disk.
    ///
    /// # Errors
    /// Fails if the disk is full or a file can't be changed.
    pub(super) fn publish(&self, record: &str) -> io::Result<PathBuf> {
        std::fs::set_permissions(&self.folder, Permissions::from_mode(0o755))?;
        self.store.publish(&self.key, record)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let (store, key, lock) = (self.store.clone(), std::mem::take(&mut self.key), self.lock.take());
        let remove = move || {
            store.give_up(&key);
            drop(lock);
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(remove)),
            Err(_) => remove(),
        }
    }
}
