//! The source files of a folder, and their text.

use std::io::Read as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ignore::overrides::Override;
use openskill_definitions::language::Language;
use openskill_definitions::protocol::MAX_SOURCE_BYTES;

use super::parser::Problem;
use crate::runners::in_process::place::{Refused, open};
use crate::runners::in_process::stop::Stop;
use crate::runners::in_process::walk::{Step, Walk};

/// The most source files of one call.
const MOST_FILES: usize = 20_000;

/// A file in a language that is known.
#[derive(Debug)]
pub(super) struct Source {
    /// Below the allowed root.
    pub(super) path: PathBuf,
    pub(super) language: Language,
}

/// The source files of a folder, in the order of their paths.
pub(super) struct Sources {
    pub(super) files: Vec<Source>,
    /// What could not be read.
    pub(super) left: Vec<(PathBuf, Refused)>,
    /// Whether these are all.
    pub(super) is_complete: bool,
}

impl Sources {
    /// # Errors
    /// The folder can't be read.
    pub(super) fn of_folder(root: Arc<OwnedFd>, folder: &Path, globs: Override, stop: &Stop) -> Result<Self, Refused> {
        let mut walk = Walk::new(root, folder, globs)?;
        let (mut files, mut left) = (Vec::new(), Vec::new());
        while !stop.is_due() && files.len() < MOST_FILES {
            match walk.next() {
                Some(Step::File(path)) => {
                    files.extend(Language::of_path(&path).map(|language| Source { path, language }));
                }
                Some(Step::Left(path, refused)) => left.push((path, refused)),
                None => return Ok(Self { files, left, is_complete: walk.is_complete() }),
            }
        }
        Ok(Self { files, left, is_complete: false })
    }
}

/// The text of a file, at most `MAX_SOURCE_BYTES`.
pub(super) fn read(root: &OwnedFd, path: &Path) -> Result<Vec<u8>, Problem> {
    let file = open(root.as_fd(), path).map_err(Problem::Refused)?;
    let mut text = Vec::new();
    let read = file.take(MAX_SOURCE_BYTES as u64 + 1).read_to_end(&mut text);
    read.map_err(|error| {
        Problem::Refused(Refused::of(rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)))
    })?;
    if text.len() > MAX_SOURCE_BYTES {
        return Err(Problem::TooLarge);
    }
    // A NUL near the start means a binary file, whatever its extension.
    if text[..text.len().min(8192)].contains(&0) {
        return Err(Problem::Binary);
    }
    Ok(text)
}
