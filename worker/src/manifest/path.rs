//! Files that a manifest names.

use std::path::{Component, Path, PathBuf};

use super::error::Fault;

/// A file beside the manifest or below it: absolute.
pub(super) fn beside(entry: &str, file: &Path) -> Result<PathBuf, Fault> {
    let entry = Path::new(entry);
    if !entry.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        let reason = "must be a relative path beside the manifest or below it, without '..'";
        return Err(("entry", reason.to_owned()).into());
    }
    Ok(file.parent().unwrap_or(Path::new(".")).join(entry))
}
