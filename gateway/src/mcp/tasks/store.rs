//! The store of tasks on disk. A write is durable once its future completes.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::record::Record;

/// Records as JSON, by task id.
const TASKS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("tasks");

/// The size of the store's cache, in bytes.
const CACHE_BYTES: usize = 4 << 20;

/// Why the store failed.
#[derive(Debug, thiserror::Error)]
#[error("the task store can't be used: {0}")]
pub(crate) struct StoreError(String);

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self(error.into().to_string())
    }
}

/// The tasks on disk. None if they are only in memory. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Store(Option<Arc<Database>>);

/// A change to the store: records to write, and the ids of records to remove.
#[derive(Debug, Default)]
pub(crate) struct StoreChange {
    pub(crate) put: Vec<(String, Arc<Record>)>,
    pub(crate) removed: Vec<String>,
}

impl Store {
    /// Opens the store, or creates one that only its owner can access. Without a `file`, nothing is stored.
    ///
    /// # Errors
    /// The file can't be used, for example because another process has it open.
    pub(crate) fn open(file: Option<&Path>) -> Result<Self, StoreError> {
        let Some(file) = file else { return Ok(Self(None)) };
        let failed = |reason: String| StoreError(format!("{}: {reason}", file.display()));
        create_private_file(file).map_err(|error| failed(error.to_string()))?;
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(file);
        let database = database.map_err(|error| failed(error.to_string()))?;
        // Create the table now, because readers need it.
        let transaction = database.begin_write()?;
        transaction.open_table(TASKS)?;
        transaction.commit()?;
        Ok(Self(Some(Arc::new(database))))
    }

    /// Returns all records by id. Skips unreadable ones.
    pub(crate) fn all(&self) -> Result<Vec<(String, Record)>, StoreError> {
        let mut all = Vec::new();
        let Some(database) = &self.0 else { return Ok(all) };
        let table = database.begin_read()?.open_table(TASKS)?;
        for found in table.iter()? {
            let (id, json) = found?;
            all.extend(serde_json::from_slice(json.value()).ok().map(|record| (id.value().to_owned(), record)));
        }
        Ok(all)
    }

    /// Applies a change durably, on another thread: disks are slow, and a shard must serve other calls meanwhile.
    pub(crate) async fn apply(&self, change: StoreChange) -> Result<(), StoreError> {
        if self.0.is_none() {
            return Ok(());
        }
        let store = self.clone();
        let done = tokio::task::spawn_blocking(move || store.write(&change)).await;
        done.unwrap_or_else(|_| Err(StoreError("it is being closed".to_owned())))
    }

    /// Applies a change durably, on the current thread.
    pub(crate) fn write(&self, change: &StoreChange) -> Result<(), StoreError> {
        let Some(database) = &self.0 else { return Ok(()) };
        let transaction = database.begin_write()?;
        {
            let mut table = transaction.open_table(TASKS)?;
            for id in &change.removed {
                table.remove(id.as_str())?;
            }
            for (id, record) in &change.put {
                let json = serde_json::to_vec(&**record).map_err(|error| StoreError(error.to_string()))?;
                table.insert(id.as_str(), json.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Creates the file and its folder if they do not exist, accessible only to their owner.
fn create_private_file(file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    fs::OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(file).map(drop)
}
