//! Folders whose content is executed. Only this process's user and root can write to them.

use std::fs::{self, DirBuilder, File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::Path;

use rustix::process::geteuid;

/// Creates a folder if it does not exist.
///
/// # Errors
/// Fails if it can't be created, or if other users may write to it.
pub fn make(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o755).create(folder)?;
    if is_trusted(&fs::metadata(folder)?) { Ok(()) } else { Err(refusal()) }
}

/// Returns whether only this process's user and root can write to a folder.
pub fn is_trusted(folder: &Metadata) -> bool {
    is_own(folder) && folder.mode() & 0o022 == 0
}

/// Returns whether a file or folder belongs to this process's user or root.
pub fn is_own(found: &Metadata) -> bool {
    found.uid() == geteuid().as_raw() || found.uid() == 0
}

/// Explains why a folder is not used.
pub fn refusal() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "other users can write to it")
}

/// Opens a lock file and locks it. Returns `None` if another process holds the lock.
///
/// # Errors
/// Fails if the file can't be created.
pub fn try_lock(file: &Path) -> io::Result<Option<File>> {
    let file = File::options().create(true).truncate(false).write(true).open(file)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}
