//! Files that a function skipped or did not read in full.

use serde::Serialize;

/// How many skipped files an answer lists. Further ones are only counted.
const MOST_LISTED: usize = 20;

/// A file, and why.
#[derive(Debug, Serialize)]
pub(super) struct Left {
    pub(super) path: String,
    /// A machine-readable reason.
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The first of them, and how many there are.
#[derive(Debug, Default)]
pub(super) struct LeftOut {
    pub(super) listed: Vec<Left>,
    pub(super) count: usize,
}

impl LeftOut {
    pub(super) fn add(&mut self, left: Option<Left>) {
        self.count += usize::from(left.is_some());
        if self.listed.len() < MOST_LISTED {
            self.listed.extend(left);
        }
    }
}
