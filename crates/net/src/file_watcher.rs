//! Watches files that may change while a process runs.

use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::OFlags;

/// The interval between reads of the files. A change counts after two equal reads, which takes less than a second.
pub const INTERVAL: Duration = Duration::from_millis(250);

/// Polls files and reports changes of their content. `T` is the result of a read, valid or not, so that each
/// problem is also reported once.
///
/// Each poll reads all files completely, because times and sizes can miss a change. Two reads must be equal: a
/// program that writes in place, or replaces a certificate and its key one after the other, briefly leaves files
/// that are valid but inconsistent.
pub struct FileWatcher<T> {
    read: Arc<dyn Fn() -> T + Send + Sync>,
    last: Option<T>,
    before: Option<T>,
    changes: u64,
}

impl<T: Clone + PartialEq + Send + 'static> FileWatcher<T> {
    /// Creates a watcher of the files that `read` reads. `read` may block. `known` is the result of an earlier
    /// read and does not count as a change.
    pub fn new(known: Option<T>, read: impl Fn() -> T + Send + Sync + 'static) -> Self {
        Self { read: Arc::new(read), last: known, before: None, changes: 0 }
    }

    /// Reads the files. Returns the result if it has changed and is stable. Call this once per [`INTERVAL`].
    pub async fn poll_change(&mut self) -> Option<T> {
        let read = Arc::clone(&self.read);
        // A hanging file system must not block a runtime thread.
        let read = tokio::task::spawn_blocking(move || read()).await.ok()?;
        let is_settled = self.before.as_ref() == Some(&read);
        self.before = Some(read.clone());
        if !is_settled || self.last.as_ref() == Some(&read) {
            return None;
        }
        self.last = Some(read.clone());
        self.changes += 1;
        Some(read)
    }

    /// Returns the number of changes so far.
    pub fn changes(&self) -> u64 {
        self.changes
    }
}

/// Reads a file.
///
/// # Errors
/// The file is unreadable, not a regular file, or larger than `max_bytes`.
pub fn read_file(path: &Path, max_bytes: u64) -> Result<Vec<u8>, Error> {
    // NONBLOCK: opening a pipe must not block.
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
    let is_file = file.metadata()?.is_file();
    let mut content = Vec::new();
    if is_file {
        file.take(max_bytes + 1).read_to_end(&mut content)?;
    }
    if !is_file || content.len() as u64 > max_bytes {
        return Err(Error::new(
            ErrorKind::InvalidInput,
            format!("it is not a regular file of at most {max_bytes} bytes"),
        ));
    }
    Ok(content)
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;

    use super::*;

    #[tokio::test]
    async fn a_change_is_reported_once_and_when_it_is_settled() {
        let content = Arc::new(Mutex::new("a"));
        let read = Arc::clone(&content);
        let mut watcher = FileWatcher::new(Some("a"), move || *read.lock());
        for (text, change) in [("a", None), ("a", None), ("b", None), ("c", None), ("c", Some("c")), ("c", None)] {
            *content.lock() = text;
            assert_eq!(watcher.poll_change().await, change, "{text}");
        }
        assert_eq!(watcher.changes(), 1);
    }

    #[test]
    fn only_a_regular_file_within_its_bound_is_read() {
        let path = std::env::temp_dir().join(format!("openskill-read-{}", std::process::id()));
        std::fs::write(&path, "12345").unwrap();
        assert_eq!(read_file(&path, 5).unwrap(), b"12345");
        assert_eq!(read_file(&path, 4).unwrap_err().kind(), ErrorKind::InvalidInput);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read_file(&path, 5).unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(read_file(&std::env::temp_dir(), 5).unwrap_err().kind(), ErrorKind::InvalidInput);
    }
}
