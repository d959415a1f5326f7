//! Files that a function skipped or read only in part.

use serde::Serialize;

/// The maximum number of skipped files that an answer lists. The others are only counted.
const MOST_LISTED: usize = 20;

/// A skipped file and the reason.
#[derive(Debug, Serialize)]
pub(super) struct SkippedFile {
    pub(super) path: String,
    /// A machine-readable reason.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The first skipped files, and the total number of skipped files.
#[derive(Debug, Default)]
pub(super) struct SkippedFiles {
    pub(super) listed: Vec<SkippedFile>,
    pub(super) count: usize,
}

impl SkippedFiles {
    pub(super) fn add(&mut self, file: Option<SkippedFile>) {
        self.count += usize::from(file.is_some());
        if self.listed.len() < MOST_LISTED {
            self.listed.extend(file);
        }
    }
}
