//! The allowed root of one container: opened before it is made, and compared with what the engine mounted.
//!
//! The engine takes a path and resolves it again, at a time of its own. So a folder that a skill replaced meanwhile is found
//! afterwards: its path leads elsewhere, or the container's process has another folder at `/data`.

use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use crate::allowed_root::{RootError, RunRoot, is_same};
use crate::manifest::docker::DATA_FOLDER;

/// How often, and how far apart, a container's process is looked for: it becomes the image's program a moment after the
/// engine says that it started.
const LOOKS: u32 = 25;
const STEP: Duration = Duration::from_millis(2);

/// The most that is read of a process's environment.
const MAX_ENVIRONMENT: u64 = 256 * 1024;

/// The folder that is mounted.
pub(super) struct Mounted {
    root: RunRoot,
    folder: OwnedFd,
    path: PathBuf,
}

/// What a container has for its root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// The folder itself.
    Same,
    /// Another one.
    Other,
    /// Its process is not visible from here: it has ended, belongs to another PID namespace or machine, or the worker may
    /// not look.
    Hidden,
}

impl Mounted {
    /// Opens the root of one run.
    ///
    /// # Errors
    /// As [`RunRoot::open`].
    pub(super) fn open(root: RunRoot) -> Result<Self, RootError> {
        let folder = root.open()?;
        // Where the folder is now, whatever its name was.
        let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let path = path.map_err(|error| RootError::System(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Ok(Self { root, folder, path })
    }

    /// For the engine.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path of the root still leads to the folder.
    ///
    /// # Errors
    /// It leads to no plain folder.
    pub(super) fn is_in_place(&self) -> Result<bool, RootError> {
        self.root.is_still(&self.folder)
    }

    /// Looks at the container whose first process the engine calls `pid`, and which has `mark` in its environment.
    pub(super) async fn look(&self, pid: i64, mark: &str) -> Seen {
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(STEP).await;
            }
            // Open: the number may come to be another process's.
            let Ok(process) = openat(CWD, format!("/proc/{pid}"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
                return Seen::Hidden;
            };
            match has_mark(&process, mark) {
                Ok(true) => return self.compare(&process, Path::new(DATA_FOLDER)),
                Ok(false) => {}
                Err(_) => return Seen::Hidden,
            }
        }
        Seen::Hidden
    }

    /// Compares what this process has at `place`. Nothing is another folder too, unless the process ends meanwhile.
    fn compare(&self, process: &OwnedFd, place: &Path) -> Seen {
        let root = || openat(process, "root", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let Ok(top) = root() else { return Seen::Hidden };
        // A link in the image leads where it leads in the container.
        let found = openat2(
            top.as_fd(),
            place,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        );
        match found.and_then(|found| Ok(is_same(&fstat(&found)?, &fstat(&self.folder)?))) {
            Ok(true) => Seen::Same,
            // An older kernel, or a container's filter that does not know the call: nobody can look.
            Err(Errno::NOSYS | Errno::PERM) => Seen::Hidden,
            Err(_) if root().is_err() => Seen::Hidden,
            Ok(false) | Err(_) => Seen::Other,
        }
    }
}

/// Whether it is the container's: the mark is random, and known to nobody else.
fn has_mark(process: &OwnedFd, mark: &str) -> std::io::Result<bool> {
    let environment = openat(process, "environ", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::new();
    std::fs::File::from(environment).take(MAX_ENVIRONMENT).read_to_end(&mut text)?;
    Ok(text.windows(mark.len()).any(|part| part == mark.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allowed_root::AllowedRoot;

    fn mounted(name: &str) -> (Mounted, PathBuf) {
        let top = std::env::temp_dir().join(format!("openskill-mounted-{}-{name}", std::process::id()));
        std::fs::create_dir_all(top.join("docs")).unwrap();
        let top = top.canonicalize().unwrap();
        let root = AllowedRoot::open(&top).unwrap().of_runs("x", Some(&top.join("docs")));
        (Mounted::open(root).unwrap(), top)
    }

    #[test]
    fn a_folder_that_was_replaced_is_noticed() {
        let (mounted, top) = mounted("replaced");
        assert_eq!(mounted.path(), top.join("docs"));
        assert_eq!(mounted.is_in_place(), Ok(true));
        std::fs::rename(top.join("docs"), top.join("moved")).unwrap();
        std::fs::create_dir(top.join("docs")).unwrap();
        assert_eq!(mounted.is_in_place(), Ok(false));
        std::fs::remove_dir(top.join("docs")).unwrap();
        std::os::unix::fs::symlink("/", top.join("docs")).unwrap();
        assert!(mounted.is_in_place().unwrap_err().to_string().contains("symbolic link"));
        std::fs::remove_dir_all(top).unwrap();
    }

    #[tokio::test]
    async fn only_the_process_with_the_mark_is_looked_at() {
        let (mounted, top) = mounted("looked");
        let mut child =
            std::process::Command::new("sleep").arg("60").env_clear().env("X", "@mark:1234 ").spawn().unwrap();
        let pid = i64::from(child.id());
        // Its root is this machine's, which has no such folder, or another one.
        assert_eq!(mounted.look(pid, "@mark:1234 ").await, Seen::Other);
        assert_eq!(mounted.look(pid, "@mark:5678 ").await, Seen::Hidden);
        let process = openat(CWD, format!("/proc/{pid}"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let seen = |place: &str| mounted.compare(&process, &top.join(place));
        assert_eq!((seen("docs"), seen(""), seen("missing")), (Seen::Same, Seen::Other, Seen::Other));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen("docs"), Seen::Hidden, "it has ended");
        assert_eq!(mounted.look(pid, "@mark:1234 ").await, Seen::Hidden);
        assert_eq!(mounted.look(0, "@mark:1234 ").await, Seen::Hidden);
        std::fs::remove_dir_all(top).unwrap();
    }
}
