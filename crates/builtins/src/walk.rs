//! Lists the files below a folder like `rg`: sorted, and without hidden files and files excluded by `.gitignore`
//! and `.ignore`.
//!
//! Each folder and each ignore file is opened relative to the descriptor of the allowed root, without following
//! links. So a folder that is replaced by a link in the meantime is rejected.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec::IntoIter;

use ignore::overrides::{Override, OverrideBuilder};
use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::allowed_root::beneath;
use rustix::fs::{Dir, FileType, OFlags};

use super::paths::{PathKind, PathRefusal, READ, kind_at};

mod rules;

use rules::Rules;

/// The maximum depth, relative to the start of the walk.
const MAX_DEPTH: usize = 128;

/// The maximum number of directory entries read by one walk.
const MAX_ENTRIES: usize = 500_000;

/// An iterator over files in path order.
pub(super) struct Walk {
    root: Arc<OwnedFd>,
    globs: Override,
    levels: Vec<Level>,
    /// The remaining number of directory entries that may be read.
    left: usize,
    /// Whether the walk covered everything so far, without reaching a limit.
    pub(super) is_complete: bool,
}

/// An open folder with its remaining entries.
struct Level {
    path: PathBuf,
    rules: Arc<Rules>,
    entries: IntoIter<WalkEntry>,
}

struct WalkEntry {
    name: OsString,
    kind: FileType,
}

/// An item yielded by a walk.
pub(super) enum WalkItem {
    /// A path relative to the allowed root. It was a regular file when its folder was read.
    File(PathBuf),
    /// A skipped path and the reason.
    Skipped(PathBuf, PathRefusal),
}

impl Walk {
    /// Starts a walk at a folder, given relative to the allowed root.
    ///
    /// # Errors
    /// The folder can't be read.
    pub(super) fn new(root: Arc<OwnedFd>, folder: &Path, globs: Override) -> Result<Self, PathRefusal> {
        let mut walk = Self { root, globs, levels: Vec::new(), left: MAX_ENTRIES, is_complete: true };
        let rules = Rules::above(walk.root.as_fd(), folder);
        walk.enter(folder.to_owned(), &rules)?;
        Ok(walk)
    }

    /// Returns the next file or skipped path, or `None` at the end.
    pub(super) fn next(&mut self) -> Option<WalkItem> {
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let path = level.path.join(&entry.name);
            let kind = match entry.kind {
                FileType::RegularFile => PathKind::File,
                FileType::Directory => PathKind::Folder,
                // Not every file system reports the type of a directory entry.
                FileType::Unknown => match kind_at(self.root.as_fd(), &path) {
                    Ok(kind) => kind,
                    Err(refused) => return Some(WalkItem::Skipped(path, refused)),
                },
                // Like `rg`, skip links, pipes and devices.
                _ => continue,
            };
            if self.is_left_out(&path, kind) {
                continue;
            }
            if kind == PathKind::File {
                return Some(WalkItem::File(path));
            }
            if self.levels.len() >= MAX_DEPTH {
                self.is_complete = false;
                continue;
            }
            let Some(rules) = self.levels.last().map(|it| Arc::clone(&it.rules)) else { continue };
            if let Err(refused) = self.enter(path.clone(), &rules) {
                return Some(WalkItem::Skipped(path, refused));
            }
        }
        None
    }

    /// Returns whether a path is excluded. Precedence is as in `rg`: the caller's globs, then ignore files, then
    /// hidden files.
    fn is_left_out(&self, path: &Path, kind: PathKind) -> bool {
        let is_folder = kind == PathKind::Folder;
        let chosen = self.globs.matched(path, is_folder);
        if !chosen.is_none() {
            return chosen.is_ignore();
        }
        let Some(level) = self.levels.last() else { return false };
        match level.rules.is_ignored(path, is_folder) {
            Some(is_ignored) => is_ignored,
            None => path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b".")),
        }
    }

    fn enter(&mut self, path: PathBuf, above: &Arc<Rules>) -> Result<(), PathRefusal> {
        let folder = beneath(self.root.as_fd(), &path, READ | OFlags::DIRECTORY).map_err(PathRefusal::from_errno)?;
        let mut entries = Vec::new();
        for entry in Dir::new(folder).map_err(PathRefusal::from_errno)? {
            let entry = entry.map_err(PathRefusal::from_errno)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.left == 0 {
                self.is_complete = false;
                break;
            }
            self.left -= 1;
            entries.push(WalkEntry { name: OsString::from_vec(name.to_owned()), kind: entry.file_type() });
        }
        let has = |name: &str| entries.iter().any(|it| it.name == name);
        let rules = Rules::for_folder(self.root.as_fd(), &path, above, has);
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.levels.push(Level { path, rules, entries: entries.into_iter() });
        Ok(())
    }
}

/// Compiles a caller's comma-separated globs for paths relative to `folder`, as in `rg --glob`.
///
/// # Errors
/// A glob is invalid.
pub(super) fn globs(folder: &Path, written: &str) -> Result<Override, SkillError> {
    let invalid = |error: ignore::Error| {
        let message = format!("glob: {error}. Use '*.py', 'src/**' or '!*.min.js'");
        SkillError::new(ErrorCode::InvalidArgument, message)
    };
    let mut builder = OverrideBuilder::new(folder);
    for glob in split(written) {
        builder.add(glob).map_err(invalid)?;
    }
    builder.build().map_err(invalid)
}

/// Splits globs at commas outside braces: `*.{c,h},!vendor/**`.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0_usize, 0, Vec::new());
    for (at, it) in text.char_indices() {
        match it {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts.into_iter().map(str::trim).filter(|it| !it.is_empty()).collect()
}

#[cfg(test)]
mod tests;
