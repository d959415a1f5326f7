//! Resolves the paths of callers, and opens them relative to the descriptor of the allowed root, never by name.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Component, Path, PathBuf};

use openskill_proto::v1::{ErrorCode, SkillError};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

use crate::allowed_root::beneath;
use crate::plain_file::{NotPlain, kind, plain};

/// An `O_PATH` descriptor of a file of any kind.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Opens for reading without blocking on a writer, a lease or a device.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

const MAX_PATH_BYTES: usize = 4096;

/// How paths below an allowed root are written: with its own name first, as in `data/src/main.py`.
#[derive(Debug, Clone)]
pub(super) struct Place {
    prefix: PathBuf,
}

/// The type of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    File,
    Folder,
}

/// Why a path is not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("it is a symbolic link, or reached by one, and links are not followed")]
    Link,
    #[error("it leads out of the allowed folder")]
    LeadsOut,
    #[error("it does not exist")]
    Missing,
    #[error("the worker may not read it")]
    Denied,
    #[error("it is {0}, not a plain file")]
    NotPlain(&'static str),
    #[error("another process holds a lease on it: try again later")]
    Held,
    #[error("it can't be read: {0}")]
    System(Errno),
}

impl Refused {
    pub(super) fn of(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::Link,
            Errno::XDEV => Self::LeadsOut,
            Errno::NOENT | Errno::NOTDIR => Self::Missing,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::AGAIN => Self::Held,
            other => Self::System(other),
        }
    }

    /// A machine-readable reason, for `left_out`.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Link => "symbolic_link",
            Self::LeadsOut => "leads_out",
            Self::Missing => "missing",
            Self::Denied => "permission_denied",
            Self::NotPlain(_) => "not_a_file",
            Self::Held | Self::System(_) => "unreadable",
        }
    }

    /// The error of a call that names it in `field`.
    pub(super) fn error(self, field: &str, path: &str) -> SkillError {
        let code = match self {
            Self::Link | Self::LeadsOut => ErrorCode::ForbiddenPath,
            Self::Missing => ErrorCode::NotFound,
            Self::Denied => ErrorCode::PermissionDenied,
            Self::NotPlain(_) => ErrorCode::InvalidArgument,
            Self::Held | Self::System(_) => ErrorCode::ExecutionError,
        };
        SkillError::new(code, format!("{field}: '{}' can't be used: {self}", quoted(path)))
    }
}

/// A path for a message: short, and without control characters.
fn quoted(path: &str) -> String {
    path.chars().filter(|it| !it.is_control()).take(200).collect()
}

impl Place {
    /// `prefix`: the name of the root, such as `data` or `data/docs`.
    pub(super) fn new(prefix: PathBuf) -> Self {
        Self { prefix: prefix.components().collect() }
    }

    /// The path below the root that a caller means, with or without the name of the root. Empty for the root itself.
    ///
    /// # Errors
    /// It leads out of the root.
    pub(super) fn below(&self, field: &str, written: &str) -> Result<PathBuf, SkillError> {
        let name = self.prefix.display();
        let forbidden = |reason: &str| {
            let message = format!("{field}: '{}' is refused: {reason}; paths start with '{name}/'", quoted(written));
            Err(SkillError::new(ErrorCode::ForbiddenPath, message))
        };
        if written.is_empty() || written.len() > MAX_PATH_BYTES || written.contains('\0') {
            let message = format!("{field}: must be a path of 1 to {MAX_PATH_BYTES} bytes, such as '{name}/main.py'");
            return Err(SkillError::new(ErrorCode::InvalidArgument, message));
        }
        let mut path = PathBuf::new();
        for part in Path::new(written).components() {
            match part {
                Component::Normal(name) => path.push(name),
                Component::CurDir => {}
                Component::ParentDir => return forbidden("'..' is not allowed in a path"),
                Component::RootDir | Component::Prefix(_) => return forbidden("an absolute path is not allowed"),
            }
        }
        if let Ok(rest) = path.strip_prefix(&self.prefix) {
            return Ok(rest.to_owned());
        }
        // Below the worker's root, but outside of the skill's.
        if self.prefix.components().next() == path.components().next() {
            return forbidden("it is outside the folder that this tool may read");
        }
        Ok(path)
    }

    /// A path below the root as callers can pass it on.
    pub(super) fn shown(&self, below: &Path) -> String {
        let whole: PathBuf = self.prefix.join(below).components().collect();
        whole.to_string_lossy().into_owned()
    }
}

/// The type of a path below the root. Does not open it.
///
/// # Errors
/// It is neither a plain file nor a folder, or is reached by a link.
pub(super) fn look(root: BorrowedFd<'_>, below: &Path) -> Result<Kind, Refused> {
    let described = beneath(root, below, LOOK).and_then(fstat).map_err(Refused::of)?;
    match kind(&described) {
        FileType::RegularFile => Ok(Kind::File),
        FileType::Directory => Ok(Kind::Folder),
        FileType::Symlink => Err(Refused::Link),
        _ => match plain(&described) {
            Err(NotPlain::Kind(what)) => Err(Refused::NotPlain(what)),
            _ => Err(Refused::System(Errno::INVAL)),
        },
    }
}

/// Opens a plain file below the root to read it. Never waits.
///
/// # Errors
/// It is no longer a plain file, or is reached by a link.
pub(super) fn open(root: BorrowedFd<'_>, below: &Path) -> Result<File, Refused> {
    let opened = beneath(root, below, READ).map_err(Refused::of)?;
    let described = fstat(opened.as_fd()).map_err(Refused::of)?;
    match plain(&described) {
        Ok(()) => Ok(File::from(opened)),
        Err(NotPlain::Kind(what)) => Err(Refused::NotPlain(what)),
        Err(_) => Err(Refused::System(Errno::INVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_from_the_root_s_name_or_from_the_root() {
        let place = Place::new(PathBuf::from("data"));
        for (written, below) in [
            ("data/src/main.py", "src/main.py"),
            ("./data/src//main.py", "src/main.py"),
            ("src/main.py", "src/main.py"),
            ("data", ""),
            ("data/", ""),
            (".", ""),
            ("data/data/x", "data/x"),
        ] {
            assert_eq!(place.below("file_path", written).unwrap(), Path::new(below), "{written}");
        }
        assert_eq!(place.shown(Path::new("src/main.py")), "data/src/main.py");
        assert_eq!(place.shown(Path::new("")), "data");
        for (written, code) in [
            ("../x", ErrorCode::ForbiddenPath),
            ("data/../x", ErrorCode::ForbiddenPath),
            ("/etc/passwd", ErrorCode::ForbiddenPath),
            ("", ErrorCode::InvalidArgument),
            ("a\0b", ErrorCode::InvalidArgument),
        ] {
            assert_eq!(place.below("file_path", written).unwrap_err().code(), code, "{written}");
        }
    }

    #[test]
    fn a_neighbour_of_a_narrowed_root_is_outside() {
        let place = Place::new(PathBuf::from("data/docs"));
        assert_eq!(place.below("file_path", "data/docs/a").unwrap(), Path::new("a"));
        assert_eq!(place.below("file_path", "data/private").unwrap_err().code(), ErrorCode::ForbiddenPath);
    }
}
