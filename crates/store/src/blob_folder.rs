//! Files with the content of blobs.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::engine::StoreError;

/// A folder in which the name of each file is the id of its blob. Only its owner can read it. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct BlobFolder(Arc<Path>);

impl BlobFolder {
    /// The folder is created with its first file.
    pub(crate) fn new(path: PathBuf) -> Self {
        Self(path.into())
    }

    /// The folder beside a database.
    pub(crate) fn beside(database: &Path) -> Self {
        let mut path = database.as_os_str().to_owned();
        path.push(".blobs");
        Self::new(path.into())
    }

    /// Creates the folder if it does not exist. It is durable then.
    pub(crate) fn create(&self) -> Result<(), StoreError> {
        let create = || {
            if self.0.is_dir() {
                return Ok(());
            }
            DirBuilder::new().recursive(true).mode(0o700).create(&self.0)?;
            sync_folder(self.0.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new(".")))
        };
        create().map_err(|error| self.failure(&error))
    }

    /// Creates the file of a blob.
    pub(crate) fn create_file(&self, id: &str) -> Result<File, StoreError> {
        self.create()?;
        let created = File::options().write(true).create_new(true).mode(0o600).open(self.0.join(id));
        created.map_err(|error| self.failure(&error))
    }

    /// Appends to a file.
    pub(crate) fn append(&self, mut file: &File, bytes: &[u8]) -> Result<(), StoreError> {
        file.write_all(bytes).map_err(|error| self.failure(&error))
    }

    /// Makes a file durable, and its name, too.
    pub(crate) fn sync(&self, file: &File) -> Result<(), StoreError> {
        file.sync_all().and_then(|()| sync_folder(&self.0)).map_err(|error| self.failure(&error))
    }

    /// Reads a range of a file, which must have this size.
    pub(crate) fn read(&self, id: &str, size: u64, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; length];
        let read = File::open(self.0.join(id)).and_then(|file| {
            file.read_exact_at(&mut bytes, offset)?;
            file.metadata()
        });
        match read {
            Ok(metadata) if metadata.len() == size => Ok(bytes),
            Ok(_) => Err(damaged(id, "has a file of another size")),
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::UnexpectedEof) => {
                Err(damaged(id, "has no file, or one that is too short"))
            }
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// Removes the file of a blob, if there is one.
    pub(crate) fn remove(&self, id: &str) -> Result<(), StoreError> {
        match std::fs::remove_file(self.0.join(id)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(self.failure(&error)),
            _ => Ok(()),
        }
    }

    /// Lists the files, as ids of blobs.
    pub(crate) fn ids(&self) -> Result<Vec<String>, StoreError> {
        let entries = match std::fs::read_dir(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| self.failure(&error))?,
        };
        let names = entries.filter_map(|it| it.ok()?.file_name().into_string().ok());
        Ok(names.filter(|it| it.len() == 32 && it.bytes().all(|byte| byte.is_ascii_hexdigit())).collect())
    }

    fn failure(&self, error: &io::Error) -> StoreError {
        StoreError::Unavailable(format!("{}: {error}", self.0.display()))
    }
}

/// What is wrong with a blob.
pub(crate) fn damaged(id: &str, reason: &str) -> StoreError {
    StoreError::Damaged(format!("the blob {id} {reason}"))
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
