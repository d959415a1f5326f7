//! Reads the files that say who may do what: bounded, and only if their owners alone can write them.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::key_file::KeyFile;

/// The largest file.
pub const MAX_BYTES: u64 = 1024 * 1024;

/// What others may do to the file: read, write, run. And what the group may do: write.
const FORBIDDEN_MODE: u32 = 0o027;

/// What others and the group may do to a file without secrets: write.
const FORBIDDEN_MODE_SHARED: u32 = 0o022;

/// Why a file of keys can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// It can't be read.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    /// Others could read or change it.
    #[error(
        "its mode is {0:03o}, so that others may read or change it: `chmod 600` it, or 640 for a group that reads it"
    )]
    Open(u32),
    /// Others could change it.
    #[error("its mode is {0:03o}, so that others may change it: `chmod go-w` it")]
    Writable(u32),
    /// It is not what a file of keys is.
    #[error("it is not a file of at most {MAX_BYTES} bytes")]
    NoFile,
    /// Its content is wrong.
    #[error("{0}")]
    Invalid(String),
}

/// The text of a file of keys.
///
/// # Errors
/// It can't be read, others may read or change it, or it is too large.
pub fn text(path: &Path) -> Result<String, FileError> {
    read_if(path, FORBIDDEN_MODE, FileError::Open)
}

/// The text of a file without secrets, which others may read.
///
/// # Errors
/// It can't be read, others may change it, or it is too large.
pub fn shared_text(path: &Path) -> Result<String, FileError> {
    read_if(path, FORBIDDEN_MODE_SHARED, FileError::Writable)
}

fn read_if(path: &Path, forbidden: u32, open: fn(u32) -> FileError) -> Result<String, FileError> {
    let unreadable = |error: std::io::Error| FileError::Unreadable(error.to_string());
    // What was checked is what is read: all of it goes by the open file. Not to block on a pipe.
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

/// The principals in a file of keys.
///
/// # Errors
/// As [`text`], or its content is wrong.
pub fn read(path: &Path) -> Result<KeyFile, FileError> {
    KeyFile::parse(&text(path)?).map_err(FileError::Invalid)
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
