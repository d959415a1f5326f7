//! Opens and reads files that other processes may replace at any time: manifests, lock files, scripts and
//! programs.
//!
//! Any process that can write to a skill folder can replace a file with a pipe, a device or a link after it was
//! checked. So a file is opened without blocking, checked through its descriptor, and read from the descriptor up
//! to a limit. Errors name the kind of file, but contain none of its content.
//!
//! - [`PlainFolder`]: reads files in a skill folder. Links are allowed if they stay inside, because Kubernetes mounts a
//!   ConfigMap as links to `..data/`. A link that leads out is refused: an error could reveal a file of the host.
//! - [`open`] and [`check`]: a script or a program may be a link to any place. The worker reveals nothing from it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, stat, statat};
use rustix::io::Errno;

#[cfg(test)]
mod tests;

use crate::beneath::{PLACE, beneath};

/// The flags that read without waiting for a writer, a lease or a device.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// The maximum number of links in a path, as in the kernel.
const MAX_LINKS: usize = 40;

/// The number of attempts to open a file if the system requests a retry, because a folder in the path may just
/// have moved.
const TRIES: usize = 3;

/// The reasons why a file can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotPlain {
    /// It is not a regular file, but of this kind.
    #[error("it is {0}, not a plain file")]
    Kind(&'static str),
    /// It is a link that leads out of the folder, or its path contains one.
    #[error("it is a symbolic link that leads out of the skill folder: put a copy of the file into the folder")]
    LeadsOut,
    /// Another process's lease prevents it from being opened.
    #[error(
        "another process holds a lease on it (fcntl F_SETLEASE): try again later, the system ends the lease within \
         fs.lease-break-time"
    )]
    Held,
    /// It is larger than this number of bytes.
    #[error("it is over {0} bytes")]
    TooLarge(u64),
    /// It is not UTF-8 text.
    #[error("it is not text in UTF-8")]
    NotText,
    /// The system fails to open or read it.
    #[error("{0}")]
    System(Errno),
}

impl NotPlain {
    /// Returns whether the file does not exist.
    pub fn is_missing(self) -> bool {
        self == Self::System(Errno::NOENT)
    }

    fn from_io_error(error: &io::Error) -> Self {
        Self::System(Errno::from_io_error(error).unwrap_or(Errno::IO))
    }

    fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN => Self::Held,
            Errno::XDEV => Self::LeadsOut,
            other => Self::System(other),
        }
    }
}

/// An open folder. Its files are accessed through its descriptor rather than its path.
#[derive(Debug)]
pub struct PlainFolder {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl PlainFolder {
    /// Opens a folder. Its path may contain links, because the operator chose it.
    ///
    /// # Errors
    /// Fails if the folder does not exist or can't be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let descriptor = openat(CWD, path, READ | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self { path: path.to_owned(), descriptor })
    }

    /// Returns the path with which it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn beneath(&self, below: &Path, wanted: OFlags) -> rustix::io::Result<OwnedFd> {
        beneath(self.descriptor.as_fd(), below, wanted, MAX_LINKS)
    }

    /// Lists the names in a subfolder, or in this folder if `below` is `.`.
    ///
    /// # Errors
    /// Fails if the folder does not exist, is outside this folder, or can't be read.
    pub fn names(&self, below: &Path) -> io::Result<Vec<OsString>> {
        let folder = self.beneath(below, READ | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(folder)? {
            let name = entry?.file_name().to_bytes().to_owned();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Describes a file, a folder, or the target of a link. If the target is outside this folder, describes the
    /// link itself, so that reading it reports the reason. Returns `None` if it does not exist or is a dangling
    /// link.
    pub fn describe(&self, below: &Path) -> Option<Stat> {
        let own = statat(&self.descriptor, below, AtFlags::SYMLINK_NOFOLLOW).ok();
        match own {
            // Most files are not links, so one call is enough.
            Some(own) if below.components().count() == 1 && !kind(&own).is_symlink() => Some(own),
            _ => match self.beneath(below, PLACE).and_then(fstat) {
                Ok(found) => Some(found),
                Err(Errno::NOENT | Errno::NOTDIR) => None,
                Err(_) => own,
            },
        }
    }

    /// Reads a text file in or below this folder, of at most `most` bytes.
    ///
    /// # Errors
    /// Fails if it is not a regular file in this folder, another process has a lease on it, it is too large, or it
    /// is not text.
    pub fn read(&self, below: &Path, most: u64) -> Result<String, NotPlain> {
        String::from_utf8(self.bytes(below, most)?).map_err(|_| NotPlain::NotText)
    }

    /// Reads a file like [`read`](Self::read), with any bytes.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Self::read).
    pub fn bytes(&self, below: &Path, most: u64) -> Result<Vec<u8>, NotPlain> {
        // Open only regular files, because opening some devices has side effects.
        self.beneath(below, PLACE).and_then(fstat).map_err(NotPlain::from_errno).and_then(|it| plain(&it))?;
        let file = open_retrying(|| self.beneath(below, READ))?;
        let mut bytes = Vec::new();
        file.take(most + 1).read_to_end(&mut bytes).map_err(|error| NotPlain::from_io_error(&error))?;
        if bytes.len() as u64 > most { Err(NotPlain::TooLarge(most)) } else { Ok(bytes) }
    }
}

/// Reads a file like [`PlainFolder::read`]. The folder is the file's parent.
///
/// # Errors
/// Returns the errors of [`PlainFolder::read`].
pub fn read_in_folder(file: &Path, most: u64) -> Result<String, NotPlain> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(NotPlain::System(Errno::NOENT));
    };
    let folder = PlainFolder::open(folder).map_err(|error| NotPlain::from_io_error(&error))?;
    folder.read(Path::new(name), most)
}

/// Opens a regular file for reading. Follows all links.
///
/// # Errors
/// Fails if it is not a regular file, another process has a lease on it, or it can't be opened.
pub fn open(file: &Path) -> Result<File, NotPlain> {
    check(file)?;
    open_retrying(|| openat(CWD, file, READ, Mode::empty()))
}

/// Checks that a path leads to a regular file, without opening it.
///
/// # Errors
/// Fails if it is missing or of another kind.
pub fn check(file: &Path) -> Result<(), NotPlain> {
    stat(file).map_err(NotPlain::from_errno).and_then(|it| plain(&it))
}

/// Checks that opening this script, or starting this program, does not block because of another process's lease.
/// Does not block itself.
///
/// # Errors
/// Fails if another process has a lease on it, or if it is not a regular file. The process itself reports all
/// other problems.
pub fn check_start(file: &Path) -> Result<(), NotPlain> {
    match open(file) {
        Err(reason @ (NotPlain::Held | NotPlain::Kind(_))) => Err(reason),
        _ => Ok(()),
    }
}

/// Replaces a file atomically, so that readers see either the old file or the new one. Does not open existing
/// files at the path or at the temporary file's path.
///
/// # Errors
/// Fails if the file can't be written.
pub fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
    let half = file.with_extension("tmp");
    match std::fs::remove_file(&half) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut new = File::create_new(&half)?;
    let written = new.write_all(text).and_then(|()| std::fs::rename(&half, file));
    if written.is_err() {
        let _ = std::fs::remove_file(&half);
    }
    written
}

fn open_retrying(open: impl Fn() -> rustix::io::Result<OwnedFd>) -> Result<File, NotPlain> {
    let mut result = open();
    for _ in 1..TRIES {
        if result.as_ref().err() != Some(&Errno::AGAIN) {
            break;
        }
        result = open();
    }
    let descriptor = result.map_err(NotPlain::from_errno)?;
    plain(&fstat(&descriptor).map_err(NotPlain::System)?)?;
    Ok(File::from(descriptor))
}

/// Returns the file type in a description.
pub fn kind(described: &Stat) -> FileType {
    FileType::from_raw_mode(described.st_mode)
}

/// Checks that a description is that of a regular file.
///
/// # Errors
/// Returns the actual kind of the file.
pub fn plain(described: &Stat) -> Result<(), NotPlain> {
    Err(NotPlain::Kind(match kind(described) {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => "a folder",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a named pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    }))
}
