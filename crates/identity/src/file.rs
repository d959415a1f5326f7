//! Reads the files that grant access. Limits their size and rejects files that other users can write. Also replaces files.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use crate::key_file::KeyFile;

/// The maximum file size, in bytes.
pub const MAX_BYTES: u64 = 1024 * 1024;

/// Permission bits that a key file must not have: read, write and execute for others, and write for the group.
const FORBIDDEN_MODE: u32 = 0o027;

/// Permission bits that a file without secrets must not have: write for others and the group.
const FORBIDDEN_MODE_SHARED: u32 = 0o022;

/// Why a key file is unusable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The file is unreadable.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// Other users could read or change it.
    #[error(
        "its mode is {0:03o}, so other users can read or change it: run `chmod 600` on the file, or `chmod 640` for a group that reads it"
    )]
    Open(u32),
    /// Other users could change it.
    #[error("its mode is {0:03o}, so other users can change it: run `chmod go-w` on the file")]
    Writable(u32),
    /// It is not a regular file, or it is too large.
    #[error("it is not a regular file of at most {MAX_BYTES} bytes")]
    NoFile,
    /// The content is invalid, for this reason.
    #[error("{0}")]
    Invalid(String),
}

/// Reads the text of a key file.
///
/// # Errors
/// The file is unreadable, too large, or readable or writable by other users.
pub fn text(path: &Path) -> Result<String, FileError> {
    read_if(path, FORBIDDEN_MODE, FileError::Open)
}

/// Reads the text of a file without secrets, which other users may read.
///
/// # Errors
/// The file is unreadable, too large, or writable by other users.
pub fn shared_text(path: &Path) -> Result<String, FileError> {
    read_if(path, FORBIDDEN_MODE_SHARED, FileError::Writable)
}

fn read_if(path: &Path, forbidden: u32, open: fn(u32) -> FileError) -> Result<String, FileError> {
    let unreadable = |error: std::io::Error| FileError::Unreadable(error.to_string());
    // Check the open file, so that the checked file is the one that is read. NONBLOCK: opening a pipe must not
    // block.
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::CLOEXEC;
    let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty()).map_err(|error| unreadable(error.into()))?;
    let file = File::from(file);
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(FileError::NoFile);
    }
    if found.mode() & forbidden != 0 {
        return Err(open(found.mode() & 0o777));
    }
    let mut text = String::new();
    match file.take(MAX_BYTES + 1).read_to_string(&mut text) {
        Ok(read) if read as u64 > MAX_BYTES => Err(FileError::NoFile),
        Ok(_) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
            Err(FileError::Invalid("it is not UTF-8".to_owned()))
        }
        Err(error) => Err(unreadable(error)),
    }
}

/// Reads the principals in a key file.
///
/// # Errors
/// The same as for [`text`], or the content is invalid.
pub fn read(path: &Path) -> Result<KeyFile, FileError> {
    KeyFile::parse(&text(path)?).map_err(FileError::Invalid)
}

/// Replaces a file atomically: a reader, or a crash, finds either the old file or the new one. The new one has `mode`.
/// `prepare` may change it while it is empty.
///
/// # Errors
/// The new file cannot be written. The old one stays.
pub fn replace(
    path: &Path,
    text: &[u8],
    mode: u32,
    prepare: impl FnOnce(&File) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut new = path.as_os_str().to_owned();
    new.push(format!(".{}.new", std::process::id()));
    // A process with the same id may have been killed here.
    let _ = std::fs::remove_file(&new);
    let written = File::options().write(true).create_new(true).mode(mode).open(&new).and_then(|mut file| {
        prepare(&file)?;
        file.write_all(text)?;
        file.sync_all()?;
        std::fs::rename(&new, path)
    });
    written.inspect_err(|_| drop(std::fs::remove_file(&new)))
}

/// Locks the directory of a file until the result is dropped, so that concurrent edits do not lose each other's changes.
/// The file itself cannot serve as the lock, because it is replaced.
///
/// # Errors
/// There is no such directory, or it cannot be locked.
pub fn lock_folder(path: &Path) -> std::io::Result<File> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = File::open(folder)?;
    folder.lock()?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    struct Scratch(std::path::PathBuf);

    impl Scratch {
        fn with(name: &str, content: &[u8], mode: u32) -> Self {
            let path = std::env::temp_dir().join(format!("openskill-keys-{}-{name}", std::process::id()));
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_file_that_others_may_read_or_change_is_refused() {
        for (mode, is_fine) in [(0o600, true), (0o640, true), (0o400, true), (0o644, false), (0o660, false)] {
            let file = Scratch::with(&format!("{mode:o}"), b"[principals.a]\n", mode);
            assert_eq!(read(&file.0).is_ok(), is_fine, "{mode:o}");
        }
    }

    #[test]
    fn a_file_without_secrets_may_be_read_by_others_and_not_changed() {
        for (mode, is_fine) in [(0o600, true), (0o644, true), (0o664, false), (0o646, false)] {
            let file = Scratch::with(&format!("shared-{mode:o}"), b"[views.a]\n", mode);
            assert_eq!(shared_text(&file.0).is_ok(), is_fine, "{mode:o}");
        }
    }

    #[test]
    fn what_is_no_file_of_keys_is_refused() {
        assert!(matches!(read(Path::new("/nonexistent")), Err(FileError::Unreadable(_))));
        assert_eq!(read(Path::new("/dev/null")).unwrap_err(), FileError::NoFile);
        let large = Scratch::with("large", &vec![b'#'; MAX_BYTES as usize + 1], 0o600);
        assert_eq!(read(&large.0).unwrap_err(), FileError::NoFile);
        let binary = Scratch::with("binary", b"\xff\xfe", 0o600);
        assert!(matches!(read(&binary.0), Err(FileError::Invalid(_))));
    }
}
