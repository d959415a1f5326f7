//! The files below a folder, as `rg` finds them: sorted, without hidden ones and those that `.gitignore` and `.ignore` name.
//!
//! Each folder and each ignore file is opened anew from the descriptor of the allowed root and by a path in which no link is
//! followed, so a folder that is swapped for a link meanwhile is refused.

use std::ffi::OsString;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::vec::IntoIter;

use ignore::overrides::{Override, OverrideBuilder};
use openskill_proto::v1::{ErrorCode, SkillError};
use rustix::fs::{Dir, FileType, OFlags};

use super::place::{Kind, READ, Refused, look};
use crate::allowed_root::beneath;

mod rules;

use rules::Rules;

/// The deepest folder, counted from where the walk begins.
const MAX_DEPTH: usize = 128;

/// How many entries of folders one walk looks at.
const MAX_ENTRIES: usize = 500_000;

/// A walk, in the order of the paths.
pub(super) struct Walk {
    root: Arc<OwnedFd>,
    globs: Override,
    levels: Vec<Level>,
    /// How many more entries it looks at.
    left: usize,
    is_complete: bool,
}

/// An open folder.
struct Level {
    path: PathBuf,
    rules: Arc<Rules>,
    entries: IntoIter<Entry>,
}

struct Entry {
    name: OsString,
    kind: FileType,
}

/// An item of a walk.
pub(super) enum Step {
    /// A plain file, when its folder was read: its path below the allowed root.
    File(PathBuf),
    /// A skipped path, and why.
    Left(PathBuf, Refused),
}

impl Walk {
    /// The walk of a folder, given below the allowed root.
    ///
    /// # Errors
    /// The folder can't be read.
    pub(super) fn new(root: Arc<OwnedFd>, folder: &Path, globs: Override) -> Result<Self, Refused> {
        let mut walk = Self { root, globs, levels: Vec::new(), left: MAX_ENTRIES, is_complete: true };
        let rules = Rules::above(walk.root.as_fd(), folder);
        walk.enter(folder.to_owned(), &rules)?;
        Ok(walk)
    }

    /// Whether no limit cut the walk short.
    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The next file or skipped path. `None` at the end.
    pub(super) fn next(&mut self) -> Option<Step> {
        while let Some(level) = self.levels.last_mut() {
            let Some(entry) = level.entries.next() else {
                self.levels.pop();
                continue;
            };
            let path = level.path.join(&entry.name);
            let kind = match entry.kind {
                FileType::RegularFile => Kind::File,
                FileType::Directory => Kind::Folder,
                // Not every file system reports types in its directories.
                FileType::Unknown => match look(self.root.as_fd(), &path) {
                    Ok(kind) => kind,
                    Err(refused) => return Some(Step::Left(path, refused)),
                },
                // As `rg` does: links, pipes and devices are no files to search.
                _ => continue,
            };
            if self.is_left_out(&path, kind) {
                continue;
            }
            if kind == Kind::File {
                return Some(Step::File(path));
            }
            if self.levels.len() >= MAX_DEPTH {
                self.is_complete = false;
                continue;
            }
            let Some(rules) = self.levels.last().map(|it| Arc::clone(&it.rules)) else { continue };
            if let Err(refused) = self.enter(path.clone(), &rules) {
                return Some(Step::Left(path, refused));
            }
        }
        None
    }

    /// Precedence as in `rg`: globs of the caller, then ignore files, then hidden files.
    fn is_left_out(&self, path: &Path, kind: Kind) -> bool {
        let is_folder = kind == Kind::Folder;
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

    fn enter(&mut self, path: PathBuf, above: &Arc<Rules>) -> Result<(), Refused> {
        let folder = beneath(self.root.as_fd(), &path, READ | OFlags::DIRECTORY).map_err(Refused::of)?;
        let mut entries = Vec::new();
        for entry in Dir::new(folder).map_err(Refused::of)? {
            let entry = entry.map_err(Refused::of)?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.left == 0 {
                self.is_complete = false;
                break;
            }
            self.left -= 1;
            entries.push(Entry { name: OsString::from_vec(name.to_owned()), kind: entry.file_type() });
        }
        let has = |name: &str| entries.iter().any(|it| it.name == name);
        let rules = Rules::of(self.root.as_fd(), &path, above, has);
        entries.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        self.levels.push(Level { path, rules, entries: entries.into_iter() });
        Ok(())
    }
}

/// The globs of a caller, for paths from `folder` on: as after `rg --glob`.
///
/// # Errors
/// One of them is invalid.
pub(super) fn globs(folder: &Path, written: &[&str]) -> Result<Override, SkillError> {
    let invalid = |error: ignore::Error| {
        let message = format!("glob: {error}. Use '*.py', 'src/**' or '!*.min.js'");
        SkillError::new(ErrorCode::InvalidArgument, message)
    };
    let mut builder = OverrideBuilder::new(folder);
    for glob in written {
        builder.add(glob).map_err(invalid)?;
    }
    builder.build().map_err(invalid)
}

/// Splits globs at commas outside of braces: `*.{c,h},!vendor/**`.
pub(super) fn split(text: &str) -> Vec<&str> {
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
