//! The errors of manifests, and the checks that several parts of a manifest share.

use std::collections::HashSet;
use std::path::{Component, Path, PathBuf};

use openskill_proto::limits::MAX_REFUSAL_BYTES;
use openskill_proto::v1::RefusedFile;

/// Describes valid skill ids, for people.
pub const ID_RULE: &str = "a lower-case letter, then at most 63 of a-z 0-9 _ -";

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
#[derive(Debug)]
pub(super) struct ManifestFault {
    pub(super) field: String,
    pub(super) reason: String,
}

impl ManifestError {
    pub(crate) fn new(file: &Path, line: usize, reason: String) -> Self {
        Self { file: file.to_owned(), line, reason }
    }

    /// Converts it to what gateways show to operators.
    pub(crate) fn to_refused_file(&self) -> RefusedFile {
        let reason = &self.reason[..self.reason.floor_char_boundary(MAX_REFUSAL_BYTES)];
        RefusedFile { file: self.file.display().to_string(), line: self.line as u32, reason: reason.to_owned() }
    }
}

impl ManifestFault {
    pub(super) fn new(field: &str, reason: impl Into<String>) -> Self {
        Self { field: field.to_owned(), reason: reason.into() }
    }
}

/// Rejects the value of a key.
pub(super) fn refuse<T>(field: &str, reason: impl Into<String>) -> Result<T, ManifestFault> {
    Err(ManifestFault::new(field, reason))
}

/// Returns whether this is a valid skill id.
pub fn valid_id(id: &str) -> bool {
    id.len() <= 64
        && id.starts_with(|first: char| first.is_ascii_lowercase())
        && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte))
}

/// Returns whether a path is relative and does not lead out of its folder.
pub(super) fn is_beneath(path: &Path) -> bool {
    path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// Returns the folder of a manifest's file.
pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new("."))
}

/// Returns the absolute path of a file in or below the manifest's folder.
pub(super) fn beside(entry: &str, file: &Path) -> Result<PathBuf, ManifestFault> {
    if !is_beneath(Path::new(entry)) {
        return refuse("entry", "must be a relative path in the manifest's folder or below it, without '..'");
    }
    Ok(folder_of(file).join(entry))
}

/// Rejects repeated names.
pub(super) fn unique<'a>(field: &str, mut names: impl Iterator<Item = &'a str>) -> Result<(), ManifestFault> {
    let mut seen = HashSet::new();
    match names.find(|name| !seen.insert(*name)) {
        Some(name) => refuse(field, format!("'{name}' is declared twice")),
        None => Ok(()),
    }
}
