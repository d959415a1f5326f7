//! Resolves files that a manifest names.

use std::path::{Component, Path, PathBuf};

use super::error::ManifestFault;

/// Returns the absolute path of a file in or below the manifest's folder.
pub(super) fn beside(entry: &str, file: &Path) -> Result<PathBuf, ManifestFault> {
    let entry = Path::new(entry);
    if !entry.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        let reason = "must be a relative path in the manifest's folder or below it, without '..'";
        return Err(("entry", reason.to_owned()).into());
    }
    Ok(file.parent().unwrap_or(Path::new(".")).join(entry))
}
