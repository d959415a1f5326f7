//! Opens files that may be replaced at any moment, and reads them: manifests, pins, scripts and programs.
//!
//! Whoever may write to a skill folder can put a pipe, a device or a link in a file's place after somebody looked. So a file is
//! opened without waiting, judged by its descriptor, and read from it up to a bound. An error says what the file is, and
//! quotes nothing of it.
//!
//! - [`Folder`]: what is read lies in a skill folder. A link counts if it stays inside, because Kubernetes mounts a
//!   ConfigMap as links to `..data/`. One that leads out is refused: it would show a file of the host in an error.
//! - [`open`] and [`check`]: a script or a program may be a link to anywhere. The worker shows nothing of it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, stat, statat};
use rustix::io::Errno;

mod beneath;
#[cfg(test)]
mod tests;

use beneath::{PLACE, beneath};

/// Reads, without waiting for a writer, a lease or a device.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// How often an open is tried that the system asks to try again: a folder on the way may just have been moved.
const TRIES: usize = 3;

/// Why a file is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotPlain {
    /// It is no file with content.
    #[error("it is {0}, not a plain file")]
    Kind(&'static str),
    /// It is, or is reached by, a link out of the folder.
    #[error("it is a symbolic link that leads out of the skill folder: put a copy of the file into the folder")]
    LeadsOut,
    /// Another process keeps it from being opened now.
    #[error(
        "another process holds a lease on it (fcntl F_SETLEASE): try again later, the system ends the lease within \
         fs.lease-break-time"
    )]
    Held,
    /// It has more bytes than that.
    #[error("it is over {0} bytes")]
    TooLarge(u64),
    /// Its bytes are no text.
    #[error("it is not text in UTF-8")]
    NotText,
    /// The system does not open or read it.
    #[error("{0}")]
    System(Errno),
}

impl NotPlain {
    /// Whether there is no such file.
    pub(crate) fn is_missing(self) -> bool {
        self == Self::System(Errno::NOENT)
    }

    fn of(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN => Self::Held,
            Errno::XDEV => Self::LeadsOut,
            other => Self::System(other),
        }
    }
}

/// A folder that is open. What it has is reached by this descriptor, not by the folder's name again.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    descriptor: OwnedFd,
}

impl Folder {
    /// Opens a folder. Its own path may lead through links: the operator chose it.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let descriptor = openat(CWD, path, READ | OFlags::DIRECTORY, Mode::empty())?;
        Ok(Self { path: path.to_owned(), descriptor })
    }

    /// The path it was opened by.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The names in a folder below this one; in this one if `below` is `.`.
    ///
    /// # Errors
    /// There is no such folder, it lies elsewhere, or it cannot be read.
    pub(crate) fn names(&self, below: &Path) -> io::Result<Vec<OsString>> {
        let folder = beneath(self.descriptor.as_fd(), below, READ | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(folder)? {
            let name = entry?.file_name().to_bytes().to_owned();
            if name != b"." && name != b".." {
                names.push(OsString::from_vec(name));
            }
        }
        Ok(names)
    }

    /// Describes a file or folder, or what a link to it stands for. What cannot be reached within this folder is described
    /// as it is found, so that reading it says why. None: there is nothing, or the link leads to nothing.
    pub(crate) fn describe(&self, below: &Path) -> Option<Stat> {
        let own = statat(&self.descriptor, below, AtFlags::SYMLINK_NOFOLLOW).ok();
        match own {
            // Most files are no links: one call is enough.
            Some(own) if below.components().count() == 1 && !kind(&own).is_symlink() => Some(own),
            _ => match beneath(self.descriptor.as_fd(), below, PLACE).and_then(fstat) {
                Ok(found) => Some(found),
                Err(Errno::NOENT | Errno::NOTDIR) => None,
                Err(_) => own,
            },
        }
    }

    /// Reads a file in this folder or below it: text of at most `most` bytes.
    ///
    /// # Errors
    /// It is not a plain file in this folder, is held, is too large, or is not text.
    pub(crate) fn read(&self, below: &Path, most: u64) -> Result<String, NotPlain> {
        // What is no plain file now is not even opened: opening some devices has effects.
        beneath(self.descriptor.as_fd(), below, PLACE)
            .and_then(fstat)
            .map_err(NotPlain::of)
            .and_then(|it| plain(&it))?;
        read(opened(|| beneath(self.descriptor.as_fd(), below, READ))?, most)
    }

    /// The same of any bytes.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn bytes(&self, below: &Path, most: u64) -> Result<Vec<u8>, NotPlain> {
        beneath(self.descriptor.as_fd(), below, PLACE)
            .and_then(fstat)
            .map_err(NotPlain::of)
            .and_then(|it| plain(&it))?;
        read_bytes(opened(|| beneath(self.descriptor.as_fd(), below, READ))?, most)
    }
}

/// Reads a file as [`Folder::read`] does; the folder is the one it is named in.
///
/// # Errors
/// As there.
pub(crate) fn read_in_folder(file: &Path, most: u64) -> Result<String, NotPlain> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
        return Err(NotPlain::System(Errno::NOENT));
    };
    let folder = Folder::open(folder).map_err(|it| NotPlain::System(Errno::from_io_error(&it).unwrap_or(Errno::IO)))?;
    folder.read(Path::new(name), most)
}

/// Opens a plain file to read it. Links are followed, to anywhere.
///
/// # Errors
/// It is not a plain file, is held, or cannot be opened.
pub(crate) fn open(file: &Path) -> Result<File, NotPlain> {
    check(file)?;
    opened(|| openat(CWD, file, READ, Mode::empty()))
}

/// Checks that a path leads to a plain file. Does not open it.
///
/// # Errors
/// It is something else, or nothing.
pub(crate) fn check(file: &Path) -> Result<(), NotPlain> {
    stat(file).map_err(NotPlain::of).and_then(|it| plain(&it))
}

/// Checks that a process which opens this script, or starts this program, would not wait: another process may hold a lease
/// on it. Does not wait itself.
///
/// # Errors
/// It is held, or not a plain file. Whatever else is wrong with it is for the process to find.
pub(crate) fn check_start(file: &Path) -> Result<(), NotPlain> {
    match open(file) {
        Err(reason @ (NotPlain::Held | NotPlain::Kind(_))) => Err(reason),
        _ => Ok(()),
    }
}

/// Replaces a file in one step: readers see the old one or the new one. What has its place, or that of the half-written
/// file, is not opened.
///
/// # Errors
/// It cannot be written.
pub(crate) fn replace(file: &Path, text: &[u8]) -> io::Result<()> {
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

fn opened(open: impl Fn() -> rustix::io::Result<OwnedFd>) -> Result<File, NotPlain> {
    let mut result = open();
    for _ in 1..TRIES {
        if result.as_ref().err() != Some(&Errno::AGAIN) {
            break;
        }
        result = open();
    }
    let descriptor = result.map_err(NotPlain::of)?;
    plain(&fstat(&descriptor).map_err(NotPlain::System)?)?;
    Ok(File::from(descriptor))
}

fn read(file: File, most: u64) -> Result<String, NotPlain> {
    String::from_utf8(read_bytes(file, most)?).map_err(|_| NotPlain::NotText)
}

fn read_bytes(file: File, most: u64) -> Result<Vec<u8>, NotPlain> {
    let mut bytes = Vec::new();
    let read = file.take(most + 1).read_to_end(&mut bytes);
    read.map_err(|error| NotPlain::System(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
    if bytes.len() as u64 > most {
        return Err(NotPlain::TooLarge(most));
    }
    Ok(bytes)
}

/// What a description is of.
pub(crate) fn kind(described: &Stat) -> FileType {
    FileType::from_raw_mode(described.st_mode)
}

/// Whether a description is of a plain file.
///
/// # Errors
/// What it is.
pub(crate) fn plain(described: &Stat) -> Result<(), NotPlain> {
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
