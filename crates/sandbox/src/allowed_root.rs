//! Opens the allowed root once, when the worker starts, and keeps the descriptor. Later code does not use its
//! path.
//!
//! A skill that may write to the whole root can replace a folder in it with a symbolic link. So the root of each
//! run is opened from the worker's descriptor without following links: [`RunRoot::open`]. Code that starts
//! something for a skill (a process, a container) passes that descriptor or its current path.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use openskill_proto::v1::{ErrorCode, SkillError};
use rustix::fs::{CWD, Mode, OFlags, Stat, fstat, openat, stat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

use crate::beneath::{self, PLACE};

const FOLDER: OFlags = PLACE.union(OFlags::DIRECTORY);

/// The maximum number of links in the path of the worker's root.
const MAX_LINKS: usize = 40;

/// The worker's allowed root. It stays open while the worker lives. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AllowedRoot {
    path: Arc<Path>,
    folder: Arc<OwnedFd>,
}

/// The allowed root of a skill's runs: the worker's root or a folder in it.
#[derive(Debug, Clone)]
pub struct RunRoot {
    worker: AllowedRoot,
    /// The path relative to the worker's root. Empty for the root itself.
    relative: PathBuf,
    skill: String,
}

/// The reasons why a run has no allowed root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RootError {
    /// The folder that the manifest names is missing or was replaced.
    #[error(
        "allowed_root {} of skill {skill} is not a plain folder below the worker's allowed root: {reason}. Put the folder \
         back, or name another one in the manifest", folder.display()
    )]
    NotPlain {
        /// The folder's path, as in the manifest.
        folder: PathBuf,
        /// The skill's id.
        skill: String,
        /// What is wrong with the folder, for people.
        reason: &'static str,
    },
    /// The path of the worker's root leads to another folder or to none.
    #[error("the worker's allowed root was moved or replaced while the worker ran. Put it back, or restart the worker")]
    Replaced,
    /// The system could not open it.
    #[error("the allowed root can't be opened: {0}")]
    System(Errno),
}

impl RootError {
    /// Logs the reason, and returns the error of the call that was not started.
    pub fn into_error(self) -> SkillError {
        if openskill_telemetry::log::admits("a skill was not started") {
            tracing::warn!(error = %self, "a skill was not started");
        }
        SkillError::new(ErrorCode::ToolInvocationError, self.to_string())
    }
}

impl AllowedRoot {
    /// Opens the worker's allowed root when the worker starts. `path`: an absolute path without links.
    ///
    /// # Errors
    /// Fails if it is not a folder or its path contains a link.
    pub fn open(path: &Path) -> io::Result<Self> {
        let folder = open_folder(path).map_err(|errno| {
            let reason = format!("the allowed root {} can't be used: {}", path.display(), why(errno));
            io::Error::new(io::Error::from(errno).kind(), reason)
        })?;
        Ok(Self { path: path.into(), folder: Arc::new(folder) })
    }

    /// Returns the path with which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the allowed root of a skill's runs. `narrowed`: the folder below the worker's root that the
    /// manifest names.
    pub fn run_root(&self, skill: &str, narrowed: Option<&Path>) -> RunRoot {
        let below = narrowed.map_or(Path::new(""), |folder| folder.strip_prefix(self.path()).unwrap_or(folder));
        RunRoot { worker: self.clone(), relative: below.to_owned(), skill: skill.to_owned() }
    }

    /// Resolves a path below this root to one without links. Fails if the path is missing or contains a link below
    /// the root, which a skill may have created. Returns `None` if the path is not below this root.
    pub(crate) fn place_below(&self, path: &Path) -> Option<Result<PathBuf, Errno>> {
        let below = below(self.path(), path)?;
        Some(open_place(&below).map(|_| below))
    }

    /// Returns whether its path still leads to it. Paths that skills receive begin with this path.
    fn is_in_place(&self) -> bool {
        let described = fstat(&self.folder).and_then(|opened| Ok((opened, stat(self.path())?)));
        described.is_ok_and(|(opened, named)| is_same(&opened, &named))
    }
}

impl RunRoot {
    /// Opens the current root of one run, which must be a folder that is reached without links.
    ///
    /// # Errors
    /// Fails if the folder is missing or was replaced.
    pub fn open(&self) -> Result<OwnedFd, RootError> {
        if !self.worker.is_in_place() {
            return Err(RootError::Replaced);
        }
        let whole = &self.worker.folder;
        if self.relative.as_os_str().is_empty() {
            return fcntl_dupfd_cloexec(whole, 0).map_err(RootError::System);
        }
        beneath(whole.as_fd(), &self.relative, FOLDER).map_err(|errno| match errno {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => RootError::System(errno),
            _ => RootError::NotPlain { folder: self.display_path(), skill: self.skill.clone(), reason: why(errno) },
        })
    }

    /// Returns whether this opened folder is still the root.
    ///
    /// # Errors
    /// Returns the errors of [`RunRoot::open`].
    pub fn is_still(&self, folder: &OwnedFd) -> Result<bool, RootError> {
        let now = self.open()?;
        let described = |it: &OwnedFd| fstat(it).map_err(RootError::System);
        Ok(is_same(&described(&now)?, &described(folder)?))
    }

    /// Returns its path, as the skill knows it.
    pub(crate) fn path(&self) -> PathBuf {
        // `join` with an empty path would append a slash.
        self.worker.path().join(&self.relative).components().collect()
    }

    /// Returns the path as callers and manifests write it: `data/docs`.
    pub fn display_path(&self) -> PathBuf {
        Path::new(self.worker.path().file_name().unwrap_or_default()).join(&self.relative)
    }
}

/// Opens a folder by its absolute path, without following links.
pub fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    open_absolute(path, FOLDER)
}

/// Opens a folder, or a file of any kind, by its absolute path, without following links.
pub(crate) fn open_place(path: &Path) -> Result<OwnedFd, Errno> {
    open_absolute(path, PLACE)
}

fn open_absolute(path: &Path, wanted: OFlags) -> Result<OwnedFd, Errno> {
    let top = openat(CWD, "/", FOLDER, Mode::empty())?;
    beneath(top.as_fd(), path.strip_prefix("/").map_err(|_| Errno::INVAL)?, wanted)
}

/// Opens a path below a folder, without following links. `wanted`: the required type of the last component.
///
/// # Errors
/// Returns `LOOP` for a link, and `XDEV` for a path that leads out of the folder.
pub fn beneath(from: BorrowedFd<'_>, relative: &Path, wanted: OFlags) -> Result<OwnedFd, Errno> {
    // The kernel also rejects absolute paths and `..`, with another error.
    if relative.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(Errno::XDEV);
    }
    let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    beneath::beneath(from, path, wanted, 0)
}

/// Follows the links in a path until it reaches `root`, an absolute path without links. Does not follow links
/// below `root`, which skills may have created. Returns `None` if the path is not below `root`.
pub fn below(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut rest: VecDeque<OsString> = parts(path).collect();
    let (mut at, mut links) = (PathBuf::from("/"), 0);
    loop {
        if at == root && rest.front().is_none_or(|next| next != "..") {
            return Some(std::iter::once(at.into_os_string()).chain(rest).collect());
        }
        let next = rest.pop_front()?;
        if next == ".." {
            at.pop();
            continue;
        }
        let Ok(target) = at.join(&next).read_link() else {
            at.push(next);
            continue;
        };
        links += 1;
        if links > MAX_LINKS {
            return None;
        }
        if target.is_absolute() {
            at = PathBuf::from("/");
        }
        parts(&target).rev().for_each(|part| rest.push_front(part));
    }
}

/// Returns the names in a path, including `..`.
pub(crate) fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let named = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.map(|part| part.as_os_str().to_owned())
}

/// Returns whether two descriptions refer to the same file or folder.
pub fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// Explains an error for people.
pub fn why(errno: Errno) -> &'static str {
    match errno {
        Errno::LOOP => "a component is a symbolic link",
        Errno::NOTDIR => "a component is not a folder",
        Errno::NOENT => "it does not exist",
        Errno::XDEV => "it leads outside the allowed root",
        Errno::ACCESS => "the worker has no permission to enter it",
        _ => "it can't be opened",
    }
}

#[cfg(test)]
mod tests;
