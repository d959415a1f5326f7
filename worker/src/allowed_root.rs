//! The allowed root as a descriptor: opened once when the worker starts, and not by its name again.
//!
//! A skill that may write in the whole root can rename a folder in it and put a symbolic link in its place. So the root of
//! each run is opened anew, from the worker's descriptor and without following a link on the way: [`RunRoot::open`].
//! Whoever starts something for a skill (a process, a container) gives it that descriptor, or what it stands for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, stat, statat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// A descriptor that stands for a folder, and gives no right to read it.
const FOLDER: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// The worker's allowed root, open for as long as the worker lives. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AllowedRoot(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    folder: OwnedFd,
}

/// The allowed root of a skill's runs: the worker's, or a folder in it.
#[derive(Debug, Clone)]
pub(crate) struct RunRoot {
    worker: AllowedRoot,
    /// Below the worker's; empty if it is the worker's.
    relative: PathBuf,
    skill: String,
}

/// Why a run has no root.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RootError {
    /// The folder that a manifest names is gone, or was replaced.
    #[error(
        "allowed_root {} of skill {skill} is not a plain folder below the worker's allowed root: {reason}. Put the folder \
         back, or name another one in the manifest", folder.display()
    )]
    NotPlain {
        /// As a manifest names it.
        folder: PathBuf,
        skill: String,
        reason: &'static str,
    },
    /// The worker's own root has another folder's name, or none.
    #[error("the worker's allowed root was moved or replaced while the worker ran. Put it back, or restart the worker")]
    Replaced,
    /// The system gives no descriptor.
    #[error("the allowed root can't be opened: {0}")]
    System(Errno),
}

impl AllowedRoot {
    /// Opens the worker's allowed root: an absolute path without links. Once, when the worker starts.
    ///
    /// # Errors
    /// It is no folder, or a component of its path is a link.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let opened = openat(CWD, "/", FOLDER, Mode::empty())
            .and_then(|top| beneath(top.as_fd(), path.strip_prefix("/").map_err(|_| Errno::INVAL)?));
        let folder = opened.map_err(|errno| {
            let reason = format!("the allowed root {} can't be used: {}", path.display(), why(errno));
            io::Error::new(io::Error::from(errno).kind(), reason)
        })?;
        Ok(Self(Arc::new(Opened { path: path.to_owned(), folder })))
    }

    /// The path it was opened by.
    pub(crate) fn path(&self) -> &Path {
        &self.0.path
    }

    /// The root of the runs of a skill. `narrowed`: the folder its manifest names, below the worker's root.
    pub(crate) fn of_runs(&self, skill: &str, narrowed: Option<&Path>) -> RunRoot {
        let below = narrowed.map_or(Path::new(""), |folder| folder.strip_prefix(self.path()).unwrap_or(folder));
        RunRoot { worker: self.clone(), relative: below.to_owned(), skill: skill.to_owned() }
    }

    /// Whether its path still leads to it: the paths that skills are told begin with it.
    fn is_in_place(&self) -> bool {
        match (fstat(&self.0.folder), stat(&self.0.path)) {
            (Ok(opened), Ok(named)) => is_same(&opened, &named),
            _ => false,
        }
    }
}

impl RunRoot {
    /// Opens the root of one run, as it is now: a plain folder, with no link on the way to it.
    ///
    /// # Errors
    /// It is gone, or something else has its place.
    pub(crate) fn open(&self) -> Result<OwnedFd, RootError> {
        if !self.worker.is_in_place() {
            return Err(RootError::Replaced);
        }
        let whole = &self.worker.0.folder;
        if self.relative.as_os_str().is_empty() {
            return fcntl_dupfd_cloexec(whole, 0).map_err(RootError::System);
        }
        beneath(whole.as_fd(), &self.relative).map_err(|errno| match errno {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => RootError::System(errno),
            _ => RootError::NotPlain { folder: self.shown(), skill: self.skill.clone(), reason: why(errno) },
        })
    }

    /// As a manifest names it: `data/docs`.
    fn shown(&self) -> PathBuf {
        Path::new(self.worker.path().file_name().unwrap_or_default()).join(&self.relative)
    }
}

/// Opens a folder below another one, and follows no link.
pub(crate) fn beneath(from: BorrowedFd<'_>, relative: &Path) -> Result<OwnedFd, Errno> {
    // Both ways refuse what is absolute and what leads up; this one says so for both.
    if relative.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(Errno::XDEV);
    }
    let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(from, path, FOLDER, Mode::empty(), resolve) {
        // An older kernel, or a container's filter that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(from, path),
        opened => opened,
    }
}

/// The same, one component after the other.
fn walk(from: BorrowedFd<'_>, relative: &Path) -> Result<OwnedFd, Errno> {
    let mut at = openat(from, ".", FOLDER, Mode::empty())?;
    for part in relative.components().filter(|part| matches!(part, Component::Normal(_))) {
        let name = part.as_os_str();
        at = openat(&at, name, FOLDER | OFlags::NOFOLLOW, Mode::empty()).map_err(|errno| {
            let found = statat(&at, name, AtFlags::SYMLINK_NOFOLLOW);
            let is_link = found.is_ok_and(|it| FileType::from_raw_mode(it.st_mode).is_symlink());
            if is_link { Errno::LOOP } else { errno }
        })?;
    }
    Ok(at)
}

/// Whether two descriptions are of one folder.
pub(crate) fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// For people.
pub(crate) fn why(errno: Errno) -> &'static str {
    match errno {
        Errno::LOOP => "a component is a symbolic link",
        Errno::NOTDIR => "a component is not a folder",
        Errno::NOENT => "it does not exist",
        Errno::XDEV => "it leads out of it",
        Errno::ACCESS => "the worker may not enter it",
        _ => "it can't be opened",
    }
}

#[cfg(test)]
mod tests;
