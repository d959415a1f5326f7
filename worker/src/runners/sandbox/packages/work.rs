//! An unfinished entry of the store that jailed processes fill.

use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Serialize;

use crate::runners::python::environments::store::Store;
use crate::runners::python::environments::unfinished::UnfinishedEntry;
use crate::schedule::Slot;
use crate::sessions::packages::run_aside;

/// An unfinished entry. Dropping the last reference removes it, unless it was published.
pub(super) struct Work {
    /// `None` while it is dropped.
    entry: Option<UnfinishedEntry>,
    folder: PathBuf,
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
        let entry = UnfinishedEntry::begin(store, key).await?;
        let folder = entry.folder().to_owned();
        DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Arc::new(Self { entry: Some(entry), folder, _slot: slot }))
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
    pub(super) fn publish(&self, record: &impl Serialize) -> io::Result<PathBuf> {
        let record = serde_json::to_string(record)?;
        std::fs::set_permissions(&self.folder, Permissions::from_mode(0o755))?;
        self.entry.as_ref().ok_or(io::ErrorKind::NotFound)?.publish(&record)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        let entry = self.entry.take();
        run_aside(move || drop(entry));
    }
}
