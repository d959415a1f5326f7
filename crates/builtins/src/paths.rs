//! Resolves paths given by callers, and opens them relative to the descriptor of the allowed root, never by
//! absolute path.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Component, Path, PathBuf};

use openskill_proto::v1::{ErrorCode, SkillError};
use openskill_sandbox::allowed_root::beneath;
use openskill_sandbox::plain_file::{NotPlain, kind, plain};
use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::Errno;

/// Flags for an `O_PATH` descriptor of any kind of file.
const LOOK: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// Flags to open a file for reading, without waiting for writers, leases or devices.
pub(super) const READ: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

const MAX_PATH_BYTES: usize = 4096;

/// Converts between paths below an allowed root and their form for callers, which begins with the root's name:
/// `data/src/main.py`.
#[derive(Debug, Clone)]
pub(super) struct PathView {
    prefix: PathBuf,
}

/// The type of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathKind {
    File,
    Folder,
}

/// Why a path was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum PathRefusal {
    #[error("it is a symbolic link, or reached by one, and links are not followed")]
    Link,
    #[error("it leads outside the allowed folder")]
    LeadsOut,
    #[error("it does not exist")]
    Missing,
    #[error("the worker has no permission to read it")]
    Denied,
    #[error("it is {0}, not a plain file")]
    NotPlain(&'static str),
    #[error("another process holds a lease on it: try again later")]
    Held,
    #[error("it can't be read: {0}")]
    System(Errno),
}

impl PathRefusal {
    pub(super) fn from_errno(errno: Errno) -> Self {
        match errno {
            Errno::LOOP => Self::Link,
            Errno::XDEV => Self::LeadsOut,
            Errno::NOENT | Errno::NOTDIR => Self::Missing,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::AGAIN => Self::Held,
            other => Self::System(other),
        }
    }

    /// Returns a machine-readable reason, for `left_out`.
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

    /// Converts the reason into an error for this path in the argument `field`.
    pub(super) fn error(self, field: &str, path: &str) -> SkillError {
        let code = match self {
            Self::Link | Self::LeadsOut => ErrorCode::ForbiddenPath,
            Self::Missing => ErrorCode::NotFound,
            Self::Denied => ErrorCode::PermissionDenied,
            Self::NotPlain(_) => ErrorCode::InvalidArgument,
            Self::Held | Self::System(_) => ErrorCode::ExecutionError,
        };
        SkillError::new(code, format!("{field}: '{}' can't be used: {self}", quote(path)))
    }
}

/// Quotes a path for a message, truncated and without control characters.
fn quote(path: &str) -> String {
    path.chars().filter(|it| !it.is_control()).take(200).collect()
}

impl PathView {
    /// `prefix` is the name of the root, such as `data` or `data/docs`.
    pub(super) fn new(prefix: PathBuf) -> Self {
        Self { prefix: prefix.components().collect() }
    }

    /// Converts a caller's path, with or without the name of the root, to a path relative to the root. Returns an
    /// empty path for the root itself.
    ///
    /// # Errors
    /// The path leads outside the root.
    pub(super) fn below(&self, field: &str, written: &str) -> Result<PathBuf, SkillError> {
        let name = self.prefix.display();
        let forbidden = |reason: &str| {
            let message = format!("{field}: '{}' is refused: {reason}; paths start with '{name}/'", quote(written));
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
        // The path is below the worker's root but outside the skill's root.
        if self.prefix.components().next() == path.components().next() {
            return forbidden("it is outside the folder that this tool may read");
        }
        Ok(path)
    }

    /// Converts a path relative to the root to its form for callers.
    pub(super) fn display_path(&self, below: &Path) -> String {
        let whole: PathBuf = self.prefix.join(below).components().collect();
        whole.to_string_lossy().into_owned()
    }
}

/// Returns the type of a path relative to the root, without opening it for reading.
///
/// # Errors
/// The path is neither a regular file nor a folder, or contains a symbolic link.
pub(super) fn kind_at(root: BorrowedFd<'_>, below: &Path) -> Result<PathKind, PathRefusal> {
    let described = beneath(root, below, LOOK).and_then(fstat).map_err(PathRefusal::from_errno)?;
    match kind(&described) {
        FileType::RegularFile => Ok(PathKind::File),
        FileType::Directory => Ok(PathKind::Folder),
        FileType::Symlink => Err(PathRefusal::Link),
        _ => match plain(&described) {
            Err(NotPlain::Kind(what)) => Err(PathRefusal::NotPlain(what)),
            _ => Err(PathRefusal::System(Errno::INVAL)),
        },
    }
}

/// Opens a regular file below the root for reading. Never blocks.
///
/// # Errors
/// The path is no longer a regular file, or contains a symbolic link.
pub(super) fn open(root: BorrowedFd<'_>, below: &Path) -> Result<File, PathRefusal> {
    let opened = beneath(root, below, READ).map_err(PathRefusal::from_errno)?;
    let described = fstat(opened.as_fd()).map_err(PathRefusal::from_errno)?;
    match plain(&described) {
        Ok(()) => Ok(File::from(opened)),
        Err(NotPlain::Kind(what)) => Err(PathRefusal::NotPlain(what)),
        Err(_) => Err(PathRefusal::System(Errno::INVAL)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_written_from_the_root_s_name_or_from_the_root() {
        let view = PathView::new(PathBuf::from("data"));
        for (written, below) in [
            ("data/src/main.py", "src/main.py"),
            ("./data/src//main.py", "src/main.py"),
            ("src/main.py", "src/main.py"),
            ("data", ""),
            ("data/", ""),
            (".", ""),
            ("data/data/x", "data/x"),
        ] {
            assert_eq!(view.below("file_path", written).unwrap(), Path::new(below), "{written}");
        }
        assert_eq!(view.display_path(Path::new("src/main.py")), "data/src/main.py");
        assert_eq!(view.display_path(Path::new("")), "data");
        for (written, code) in [
            ("../x", ErrorCode::ForbiddenPath),
            ("data/../x", ErrorCode::ForbiddenPath),
            ("/etc/passwd", ErrorCode::ForbiddenPath),
            ("", ErrorCode::InvalidArgument),
            ("a\0b", ErrorCode::InvalidArgument),
        ] {
            assert_eq!(view.below("file_path", written).unwrap_err().code(), code, "{written}");
        }
    }

    #[test]
    fn a_neighbour_of_a_narrowed_root_is_outside() {
        let view = PathView::new(PathBuf::from("data/docs"));
        assert_eq!(view.below("file_path", "data/docs/a").unwrap(), Path::new("a"));
        assert_eq!(view.below("file_path", "data/private").unwrap_err().code(), ErrorCode::ForbiddenPath);
    }
}
