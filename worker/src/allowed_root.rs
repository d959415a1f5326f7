//! The allowed root as a descriptor: opened once when the worker starts, and not by its name again.
//!
//! A skill that may write in the whole root can rename a folder in it and put a symbolic link in its place. So the root of
//! each run is opened anew, from the worker's descriptor and without following a link on the way: [`RunRoot::open`].
//! Whoever starts something for a skill (a process, a container) gives it that descriptor, or what it stands for.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2, stat, statat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// A descriptor that stands for a file or folder, and gives no right to read it.
const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const FOLDER: OFlags = PLACE.union(OFlags::DIRECTORY);

/// Links on the way to the worker's root.
const MAX_LINKS: usize = 40;

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
        let folder = open_folder(path).map_err(|errno| {
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
        beneath(whole.as_fd(), &self.relative, FOLDER).map_err(|errno| match errno {
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => RootError::System(errno),
            _ => RootError::NotPlain { folder: self.shown(), skill: self.skill.clone(), reason: why(errno) },
        })
    }

    /// Whether this folder, opened before, is still the root.
    ///
    /// # Errors
    /// As [`RunRoot::open`].
    pub(crate) fn is_still(&self, folder: &OwnedFd) -> Result<bool, RootError> {
        let now = self.open()?;
        let described = |it: &OwnedFd| fstat(it).map_err(RootError::System);
        Ok(is_same(&described(&now)?, &described(folder)?))
    }

    /// Its path, by which the skill knows it.
    pub(crate) fn path(&self) -> PathBuf {
        // `join` with an empty path would add a slash.
        self.worker.path().join(&self.relative).components().collect()
    }

    /// As callers and manifests name it: `data/docs`.
    pub(crate) fn shown(&self) -> PathBuf {
        Path::new(self.worker.path().file_name().unwrap_or_default()).join(&self.relative)
    }
}

/// Opens a folder by its absolute path, and follows no link.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    open_absolute(path, FOLDER)
}

/// The same for a folder or a file of any kind.
pub(crate) fn open_place(path: &Path) -> Result<OwnedFd, Errno> {
    open_absolute(path, PLACE)
}

fn open_absolute(path: &Path, wanted: OFlags) -> Result<OwnedFd, Errno> {
    let top = openat(CWD, "/", FOLDER, Mode::empty())?;
    beneath(top.as_fd(), path.strip_prefix("/").map_err(|_| Errno::INVAL)?, wanted)
}

/// Opens what is below a folder, and follows no link. `wanted`: what the last component must be.
///
/// # Errors
/// `LOOP` for a link, `XDEV` for a path that leads out.
pub(crate) fn beneath(from: BorrowedFd<'_>, relative: &Path, wanted: OFlags) -> Result<OwnedFd, Errno> {
    // Both ways refuse what is absolute and what leads up; this one says so for both.
    if relative.components().any(|part| !matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Err(Errno::XDEV);
    }
    let path = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(from, path, wanted, Mode::empty(), resolve) {
        // An older kernel, or a container's filter that does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(from, path, wanted),
        opened => opened,
    }
}

/// The same, one component after the other.
fn walk(from: BorrowedFd<'_>, relative: &Path, wanted: OFlags) -> Result<OwnedFd, Errno> {
    let mut at = openat(from, ".", FOLDER, Mode::empty())?;
    let mut names = relative.iter().filter(|name| *name != ".").peekable();
    while let Some(name) = names.next() {
        let kind = if names.peek().is_some() { FOLDER } else { wanted };
        // Without following it, a link is no folder, and else opened itself.
        let opened = openat(&at, name, kind | OFlags::NOFOLLOW, Mode::empty());
        let described = opened.as_ref().map_or_else(|_| statat(&at, name, AtFlags::SYMLINK_NOFOLLOW), fstat);
        if described.is_ok_and(|it| FileType::from_raw_mode(it.st_mode).is_symlink()) {
            return Err(Errno::LOOP);
        }
        at = opened?;
    }
    Ok(at)
}

/// Follows a path until it comes to `root`, an absolute path without links, and no further: links below it may be a skill's.
/// None: it leads elsewhere.
pub(crate) fn below(root: &Path, path: &Path) -> Option<PathBuf> {
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

fn parts(path: &Path) -> impl DoubleEndedIterator<Item = OsString> {
    let named = path.components().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    named.map(|part| part.as_os_str().to_owned())
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
