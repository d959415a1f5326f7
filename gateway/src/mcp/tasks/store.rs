//! Tasks on disk or in memory. What is written is durable when its future is done.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use redb::backends::InMemoryBackend;
use redb::{Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use super::record::Record;

/// Records as JSON, by the ids of tasks.
const TASKS: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("tasks");

/// How much of the store stays in memory, in bytes.
const CACHE_BYTES: usize = 4 << 20;

/// Why the store can't be used.
#[derive(Debug, thiserror::Error)]
#[error("the store of tasks: {0}")]
pub(crate) struct StoreError(String);

impl<E: Into<redb::Error>> From<E> for StoreError {
    fn from(error: E) -> Self {
        Self(error.into().to_string())
    }
}

/// The store. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Store(Arc<Database>);

/// A change of the store: records to write, and the ids of those that go.
#[derive(Debug, Default)]
pub(crate) struct Change {
    pub(crate) put: Vec<(String, Record)>,
    pub(crate) removed: Vec<String>,
}

impl Store {
    /// Opens the store, or makes a new one, for its owner only. None: it is in memory, and ends with the process.
    ///
    /// # Errors
    /// The file can't be used: another process has it open, say.
    pub(crate) fn open(file: Option<&Path>) -> Result<Self, StoreError> {
        let mut builder = Database::builder();
        builder.set_cache_size(CACHE_BYTES);
        let database = match file {
            None => builder.create_with_backend(InMemoryBackend::new())?,
            Some(file) => {
                private(file).map_err(|error| StoreError(format!("{}: {error}", file.display())))?;
                builder.create(file).map_err(|error| StoreError(format!("{}: {error}", file.display())))?
            }
        };
        // Readers need the table to exist.
        let transaction = database.begin_write()?;
        transaction.open_table(TASKS)?;
        transaction.commit()?;
        Ok(Self(Arc::new(database)))
    }

    /// All records, by id. One that can't be read is left out.
    pub(crate) fn all(&self) -> Result<Vec<(String, Record)>, StoreError> {
        let table = self.0.begin_read()?.open_table(TASKS)?;
        let mut all = Vec::new();
        for found in table.iter()? {
            let (id, json) = found?;
            all.extend(serde_json::from_slice(json.value()).ok().map(|record| (id.value().to_owned(), record)));
        }
        Ok(all)
    }

    /// A record.
    pub(crate) async fn get(&self, id: &str) -> Result<Option<Record>, StoreError> {
        let (store, id) = (self.clone(), id.to_owned());
        aside(move || {
            let table = store.0.begin_read()?.open_table(TASKS)?;
            let found = table.get(id.as_str())?;
            Ok(found.and_then(|json| serde_json::from_slice(json.value()).ok()))
        })
        .await
    }

    /// Makes a change durable.
    pub(crate) async fn apply(&self, change: Change) -> Result<(), StoreError> {
        let store = self.clone();
        aside(move || store.write(&change)).await
    }

    /// The same on this thread.
    pub(crate) fn write(&self, change: &Change) -> Result<(), StoreError> {
        let transaction = self.0.begin_write()?;
        {
            let mut table = transaction.open_table(TASKS)?;
            for id in &change.removed {
                table.remove(id.as_str())?;
            }
            for (id, record) in &change.put {
                let json = serde_json::to_vec(record).map_err(|error| StoreError(error.to_string()))?;
                table.insert(id.as_str(), json.as_slice())?;
            }
        }
        Ok(transaction.commit()?)
    }
}

/// Disks are slow: a shard has other calls.
async fn aside<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|_| Err(StoreError("it is being closed".to_owned())))
}

/// Makes the file and its folder, for their owner only, if they do not exist.
fn private(file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent().filter(|it| !it.as_os_str().is_empty()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    fs::OpenOptions::new().create(true).truncate(false).read(true).write(true).mode(0o600).open(file).map(drop)
}
