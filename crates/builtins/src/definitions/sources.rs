//! Finds and reads the source files in a folder.

use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::overrides::Override;
use openskill_definitions::language::Language;
use openskill_definitions::protocol::MAX_SOURCE_BYTES;

use super::parser::ParseFailure;
use crate::paths::{PathRefusal, open};
use crate::stop::StopSignal;
use crate::walk::{Walk, WalkItem};

/// The maximum number of source files in one call.
const MOST_FILES: usize = 20_000;

/// A source file in a supported language.
#[derive(Debug)]
pub(super) struct SourceFile {
    /// The path relative to the allowed root.
    pub(super) path: PathBuf,
    pub(super) language: Language,
}

/// The source files in a folder, sorted by path.
pub(super) struct Sources {
    pub(super) files: Vec<SourceFile>,
    /// The paths that could not be read, with reasons.
    pub(super) skipped: Vec<(PathBuf, PathRefusal)>,
    /// Whether the list contains all source files of the folder.
    pub(super) is_complete: bool,
}

impl Sources {
    /// # Errors
    /// The folder can't be read.
    pub(super) fn in_folder(
        root: Arc<OwnedFd>,
        folder: &Path,
        globs: Override,
        stop: &StopSignal,
    ) -> Result<Self, PathRefusal> {
        let mut walk = Walk::new(root, folder, globs)?;
        let (mut files, mut skipped) = (Vec::new(), Vec::new());
        while !stop.is_due() && files.len() < MOST_FILES {
            match walk.next() {
                Some(WalkItem::File(path)) => {
                    files.extend(Language::from_path(&path).map(|language| SourceFile { path, language }));
                }
                Some(WalkItem::Skipped(path, refused)) => skipped.push((path, refused)),
                None => return Ok(Self { files, skipped, is_complete: walk.is_complete() }),
            }
        }
        Ok(Self { files, skipped, is_complete: false })
    }
}

/// Reads a file of at most `MAX_SOURCE_BYTES`. Rejects binary files.
pub(super) fn read(root: &OwnedFd, path: &Path) -> Result<Vec<u8>, ParseFailure> {
    let file = open(root.as_fd(), path).map_err(ParseFailure::Refused)?;
    let mut text = Vec::new();
    let read = file.take(MAX_SOURCE_BYTES as u64 + 1).read_to_end(&mut text);
    read.map_err(|error| {
        ParseFailure::Refused(PathRefusal::from_errno(
            rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO),
        ))
    })?;
    if text.len() > MAX_SOURCE_BYTES {
        return Err(ParseFailure::TooLarge);
    }
    // A NUL near the start marks a binary file, regardless of its extension.
    if text[..text.len().min(8192)].contains(&0) {
        return Err(ParseFailure::Binary);
    }
    Ok(text)
}
