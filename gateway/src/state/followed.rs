//! A file that is read again and again while the gateway runs.
//!
//! All of it is read: times and sizes of files can miss a change. Two reads must be equal: an editor that writes in place leaves
//! a part of the file for a moment, and a part may be valid and say something else than the whole.

use std::path::Path;
use std::time::Duration;

use openskill_identity::file::FileError;

/// How often a file is read. A change counts when it was read twice, which takes less than a second.
pub(crate) const INTERVAL: Duration = Duration::from_millis(250);

type Read = Result<String, FileError>;

/// What a file had when it was read last.
#[derive(Debug)]
pub(crate) struct Followed {
    read: fn(&Path) -> Read,
    last: Option<Read>,
    before: Option<Read>,
}

impl Followed {
    /// `read`: how the file is read.
    pub(crate) fn new(read: fn(&Path) -> Read) -> Self {
        Self { read, last: None, before: None }
    }

    /// What the file has now, if that is something else than before, and whether it is the first time.
    pub(crate) async fn look(&mut self, path: &Path) -> Option<(Result<String, String>, bool)> {
        let (read, path) = (self.read, path.to_owned());
        // A file system that hangs must not keep the main thread.
        let read = tokio::task::spawn_blocking(move || read(&path)).await.ok()?;
        let is_settled = self.before.as_ref() == Some(&read);
        self.before = Some(read.clone());
        if !is_settled || self.last.as_ref() == Some(&read) {
            return None;
        }
        let is_first = self.last.is_none();
        self.last = Some(read.clone());
        Some((read.map_err(|error| error.to_string()), is_first))
    }
}
