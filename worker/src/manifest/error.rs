//! What is wrong with a manifest, and where.

use std::path::PathBuf;

/// Why a manifest cannot be used, with its file and line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {reason}", file.display())]
pub struct ManifestError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1; 1 if the fault is not in a single line.
    pub line: usize,
    /// What is wrong and what is expected.
    pub reason: String,
}

/// What is wrong, and the key it is wrong with.
pub(super) struct Fault {
    pub(super) field: String,
    pub(super) reason: String,
}

impl<F: Into<String>> From<(F, String)> for Fault {
    fn from((field, reason): (F, String)) -> Self {
        Self { field: field.into(), reason }
    }
}
