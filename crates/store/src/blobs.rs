//! Blobs: the large parts of results, which are apart from the rows of operations.
//!
//! ```text
//! begin (row, of a claim) ──write (content)──> complete (size, SHA-256) ──finish of the operation──> named ──> read
//!     └── the claim ends in another way ──> loose <── the operation is removed ──────────────────────┘
//!                                             └──sweep──> removed
//! ```
//!
//! A row exists before its content and is removed after it, so no content is ever without a row. Whether a blob is still
//! needed depends on rows alone: an operation names it, or a valid claim may yet do so. A claim never becomes valid
//! again, so a loose blob stays loose.
//!
//! The content is in chunks in the database, or in files: `blob_folder`.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use crate::Store;
use crate::blob_folder::{BlobFolder, damaged};
use crate::engine::{Statement, StoreError};
use crate::operation::Blob;
use crate::operations::Fence;

/// How much of a blob is written and read at once, in bytes.
pub const PIECE_BYTES: usize = 1024 * 1024;

/// The maximum size of a blob whose content is in the database, in bytes.
pub const MAX_CHUNKED_BYTES: u64 = 64 * 1024 * 1024;

const CHUNK_BYTES: usize = 256 * 1024;

/// How many loose blobs are removed at once.
const MAX_SWEPT: usize = 100;

const BEGIN: &str = "INSERT INTO blobs (id, operation_id, epoch, in_file, named, size) SELECT $3, id, epoch, $4, 0, 0 \
                     FROM operations WHERE id = $1 AND epoch = $2 AND state = 2 RETURNING id";
/// The lock keeps a sweep from removing the row before the chunk is there to be removed, too.
const ADD_CHUNK: &str = "INSERT INTO blob_chunks (blob_id, number, bytes) SELECT id, $2, $3 FROM blobs WHERE id = $1 \
                         FOR SHARE ON CONFLICT DO NOTHING";
const COMPLETE: &str = "UPDATE blobs SET size = $2, sha256 = $3 WHERE id = $1 RETURNING id";
const FIND: &str = "SELECT size, sha256, in_file FROM blobs WHERE id = $1 AND named = 1";
const KNOWS: &str = "SELECT id FROM blobs WHERE id = $1";
const READ_CHUNKS: &str =
    "SELECT number, bytes FROM blob_chunks WHERE blob_id = $1 AND number >= $2 AND number <= $3 ORDER BY number";
const LOOSE: &str = "SELECT id, in_file FROM blobs WHERE named = 0 AND in_file <= $1 AND NOT EXISTS (SELECT 1 FROM operations \
                     WHERE operations.id = blobs.operation_id AND operations.epoch = blobs.epoch AND operations.state = 2) \
                     LIMIT $2";
const REMOVE: &str = "DELETE FROM blobs WHERE id = $1";
const REMOVE_CHUNKS: &str = "DELETE FROM blob_chunks WHERE blob_id = $1";

/// Writes the content of a new blob. One that is dropped before it is complete is removed later.
#[derive(Debug)]
pub struct BlobWriter<'a> {
    store: &'a Store,
    blob: Blob,
    digest: Sha256,
    file: Option<Arc<File>>,
    /// The number of chunks in the database.
    chunks: i64,
    /// What is not written yet: less than a piece.
    waiting: Vec<u8>,
}

impl Store {
    /// Has the content of new blobs written to files in a folder, which all gateways of this store must share. Creates it.
    ///
    /// # Errors
    /// The folder can't be created.
    pub fn with_blob_folder(mut self, path: &Path) -> Result<Self, StoreError> {
        let folder = BlobFolder::new(path.to_owned());
        folder.create()?;
        self.blobs = Some(folder);
        Ok(self)
    }

    /// Begins a blob for the result of an operation. None if the claim is no longer valid.
    ///
    /// # Errors
    /// The store failed.
    pub async fn begin_blob(&self, fence: Fence<'_>) -> Result<Option<BlobWriter<'_>>, StoreError> {
        let id = format!("{:032x}", rand::random::<u128>());
        let is_in_file = self.blobs.is_some();
        let values = [fence.id.into(), fence.epoch.into(), id.as_str().into(), i64::from(is_in_file).into()];
        if self.first(Statement::new(BEGIN, values)).await?.is_none() {
            return Ok(None);
        }
        let file = match self.blobs.clone() {
            Some(folder) => {
                let id = id.clone();
                Some(Arc::new(blocking(move || folder.create_file(&id)).await?))
            }
            None => None,
        };
        let blob = Blob { id, size_bytes: 0, sha256: Vec::new(), is_in_file };
        Ok(Some(BlobWriter { store: self, blob, digest: Sha256::new(), file, chunks: 0, waiting: Vec::new() }))
    }

    /// Finds a blob that the result of an operation names.
    ///
    /// # Errors
    /// The store failed, or the blob is missing.
    pub async fn blob(&self, id: &str) -> Result<Blob, StoreError> {
        let row = self.engine.read(Statement::new(FIND, [id.into()])).await?.pop();
        let mut row = row.ok_or_else(|| damaged(id, "is missing"))?;
        let (size, sha256) = (row.integer()?, row.bytes()?);
        let size_bytes = u64::try_from(size).map_err(|_| damaged(id, "has a negative size"))?;
        Ok(Blob { id: id.to_owned(), size_bytes, sha256, is_in_file: row.integer()? != 0 })
    }

    /// Reads up to `length` bytes of a blob, and not more than [`PIECE_BYTES`]. Empty at its end.
    ///
    /// # Errors
    /// The store failed, or the content is missing or has another size.
    pub async fn read_blob(&self, blob: &Blob, offset: u64, length: u64) -> Result<Vec<u8>, StoreError> {
        let left = blob.size_bytes.saturating_sub(offset);
        let length = left.min(length).min(PIECE_BYTES as u64) as usize;
        if length == 0 {
            return Ok(Vec::new());
        }
        if blob.is_in_file {
            let folder =
                self.blobs.clone().ok_or_else(|| damaged(&blob.id, "is in a folder that is not configured"))?;
            let (id, size) = (blob.id.clone(), blob.size_bytes);
            return blocking(move || folder.read(&id, size, offset, length)).await;
        }
        self.read_chunks(blob, offset, length).await
    }

    async fn read_chunks(&self, blob: &Blob, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let size = CHUNK_BYTES as u64;
        let (first, last) = (offset / size, (offset + length as u64 - 1) / size);
        let values = [blob.id.as_str().into(), first.cast_signed().into(), last.cast_signed().into()];
        let rows = self.engine.read(Statement::new(READ_CHUNKS, values)).await?;
        let mut bytes = Vec::with_capacity(rows.len() * CHUNK_BYTES);
        for (expected, mut row) in (first..).zip(rows) {
            let (number, chunk) = (row.integer()?, row.bytes()?);
            let chunk_size = (blob.size_bytes - expected * size).min(size);
            if number != expected.cast_signed() || chunk.len() as u64 != chunk_size {
                return Err(damaged(&blob.id, "has a damaged chunk"));
            }
            bytes.extend(chunk);
        }
        let begin = (offset - first * size) as usize;
        let part = bytes.get(begin..begin + length).ok_or_else(|| damaged(&blob.id, "lacks chunks"))?;
        Ok(part.to_owned())
    }

    /// Removes blobs that no operation needs. Returns how many, at most 100.
    ///
    /// # Errors
    /// The store failed.
    pub async fn sweep_blobs(&self) -> Result<usize, StoreError> {
        // Files elsewhere wait for a gateway that has the folder.
        let has_files = i64::from(self.blobs.is_some());
        let limit = MAX_SWEPT as i64;
        let mut loose = self.engine.read(Statement::new(LOOSE, [has_files.into(), limit.into()])).await?;
        let mut removed = 0;
        for row in &mut loose {
            let (id, is_in_file) = (row.text()?, row.integer()? != 0);
            if let Some(folder) = self.blobs.clone().filter(|_| is_in_file) {
                let name = id.clone();
                if let Err(error) = blocking(move || folder.remove(&name)).await {
                    tracing::warn!(%error, id, "a file of a result can't be removed yet");
                    continue;
                }
            }
            // First the row, on whose lock the writer of a chunk waits.
            let remove = [REMOVE, REMOVE_CHUNKS].map(|sql| Statement::new(sql, [id.as_str().into()]));
            self.engine.write(remove.into()).await?;
            removed += 1;
        }
        Ok(removed)
    }

    /// Removes files without a row from the folder of this store: an older copy of the database may have been restored.
    pub(crate) async fn remove_unknown_files(&self) -> Result<(), StoreError> {
        let Some(folder) = self.blobs.clone() else { return Ok(()) };
        let listed = folder.clone();
        for id in blocking(move || listed.ids()).await? {
            if self.engine.read(Statement::new(KNOWS, [id.as_str().into()])).await?.is_empty() {
                let folder = folder.clone();
                blocking(move || folder.remove(&id)).await?;
            }
        }
        Ok(())
    }
}

impl BlobWriter<'_> {
    /// Appends to the content.
    ///
    /// # Errors
    /// The store failed, or the content is too large for it. Then the blob is of no use.
    pub async fn write(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE_BYTES - self.waiting.len()));
            self.blob.size_bytes += now.len() as u64;
            if self.file.is_none() && self.blob.size_bytes > MAX_CHUNKED_BYTES {
                return Err(StoreError::TooLarge(MAX_CHUNKED_BYTES));
            }
            self.digest.update(now);
            self.waiting.extend_from_slice(now);
            if self.waiting.len() == PIECE_BYTES {
                self.flush().await?;
            }
            bytes = later;
        }
        Ok(())
    }

    /// Completes the blob, whose content then is durable. None if the claim is no longer valid.
    ///
    /// # Errors
    /// The store failed.
    pub async fn complete(mut self) -> Result<Option<Blob>, StoreError> {
        self.flush().await?;
        if let (Some(file), Some(folder)) = (self.file, self.store.blobs.clone()) {
            blocking(move || folder.sync(&file)).await?;
        }
        self.blob.sha256 = self.digest.finalize().to_vec();
        let Blob { id, size_bytes, sha256, .. } = &self.blob;
        let values = [id.as_str().into(), size_bytes.cast_signed().into(), sha256.clone().into()];
        let is_complete = self.store.first(Statement::new(COMPLETE, values)).await?.is_some();
        Ok(is_complete.then_some(self.blob))
    }

    /// Removes what was written of a blob that can't be completed.
    ///
    /// # Errors
    /// The store failed. Then [`Store::sweep_blobs`] removes it, once the claim is no longer valid.
    pub async fn discard(self) -> Result<(), StoreError> {
        if let (Some(_), Some(folder)) = (self.file, self.store.blobs.clone()) {
            let id = self.blob.id.clone();
            blocking(move || folder.remove(&id)).await?;
        }
        let remove = [REMOVE, REMOVE_CHUNKS].map(|sql| Statement::new(sql, [self.blob.id.as_str().into()]));
        self.store.engine.write(remove.into()).await.map(drop)
    }

    async fn flush(&mut self) -> Result<(), StoreError> {
        let bytes = std::mem::take(&mut self.waiting);
        if let (Some(file), Some(folder)) = (self.file.clone(), self.store.blobs.clone()) {
            return blocking(move || folder.append(&file, &bytes)).await;
        }
        let id = self.blob.id.as_str();
        let numbered = (self.chunks..).zip(bytes.chunks(CHUNK_BYTES));
        let chunks: Vec<_> = numbered
            .map(|(number, chunk)| Statement::new(ADD_CHUNK, [id.into(), number.into(), chunk.to_vec().into()]))
            .collect();
        self.chunks += chunks.len() as i64;
        self.store.engine.write(chunks).await.map(drop)
    }
}

/// Runs file operations on a thread for them.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let ended = |_| StoreError::Unavailable("a thread for files has ended".to_owned());
    tokio::task::spawn_blocking(work).await.map_err(ended)?
}
