//! An entry of the store while it is built: locked, and removed unless it was published.

use std::fs::{DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::runners::python::environments::store::Store;
use crate::schedule::Slot;

/// How often a worker looks whether another one has finished with an entry.
const STEP: Duration = Duration::from_millis(100);

/// What is being built. The last one who holds it removes what was not published.
pub(super) struct Work {
    store: Store,
    key: String,
    folder: PathBuf,
    lock: Option<File>,
    /// Held until nothing runs for the call.
    _slot: Option<Arc<Slot>>,
}

impl Work {
    /// Waits until nobody else builds the entry of this key. Makes its folder, in which only the worker's user finds its way.
    ///
    /// # Errors
    /// The folder or its lock can't be made.
    pub(super) async fn begin(store: &Store, key: &str, slot: Option<Arc<Slot>>) -> io::Result<Arc<Self>> {
        let lock = loop {
            match store.lock(key)? {
                Some(lock) => break lock,
                None => tokio::time::sleep(STEP).await,
            }
        };
        let (store, key) = (store.clone(), key.to_owned());
        // It may have much to remove. The lock goes along, as it must outlive the removal if this future is dropped.
        let begun = tokio::task::spawn_blocking(move || {
            let folder = store.begin(&key)?;
            DirBuilder::new().mode(0o700).create(&folder)?;
            Ok(Arc::new(Self { store, key, folder, lock: Some(lock), _slot: slot }))
        });
        begun.await.map_err(io::Error::other)?
    }

    /// Makes a folder for a jailed process to fill: it runs as some other user, and only a mount leads there.
    ///
    /// # Errors
    /// It can't be made.
    pub(super) fn make(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join(name);
        std::fs::create_dir(&folder)?;
        std::fs::set_permissions(&folder, Permissions::from_mode(0o777))?;
        folder.canonicalize()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Makes it an entry. Blocks on the disk.
    ///
    /// # Errors
    /// The disk is full, or a file can't be changed.
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
