//! Manifest errors with their location.

use std::path::PathBuf;

/// The reason why a manifest can't be used, with its location.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}:{line}: {reason}", file.display())]
pub struct ManifestError {
    /// The path of the manifest's file.
    pub file: PathBuf,
    /// The line, from 1. It is 1 if the error is not in one line.
    pub line: usize,
    /// What is wrong, and what is expected.
    pub reason: String,
}

/// A key, and the reason why its value is invalid.
pub(super) struct ManifestFault {
    pub(super) field: String,
    pub(super) reason: String,
}

impl<F: Into<String>> From<(F, String)> for ManifestFault {
    fn from((field, reason): (F, String)) -> Self {
        Self { field: field.into(), reason }
    }
}
