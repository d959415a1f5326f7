//! Mounts the allowed root into a container: opens it before the container is created, and then compares it with
//! what the engine mounted.
//!
//! The engine receives a path and resolves it later, so a skill may replace the folder in between. The worker
//! detects this afterwards: the path leads elsewhere, or the container's process sees another folder at `/data`.

use std::io::Read as _;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use openskill_sandbox::allowed_root::{RootError, RunRoot, is_same};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, fstat, openat, openat2};
use rustix::io::Errno;

use crate::manifest::docker::DATA_FOLDER;

/// The number and interval of attempts to find a container's process, which becomes the image's program shortly
/// after the engine reports that it started.
const ATTEMPTS: u32 = 25;
const STEP: Duration = Duration::from_millis(2);

/// The maximum part of a process's environment that is read, in bytes.
const MAX_ENVIRONMENT: u64 = 256 * 1024;

/// The allowed root, which is mounted into one container.
pub(super) struct RootMount {
    root: RunRoot,
    folder: OwnedFd,
    path: PathBuf,
}

/// The result of comparing a container's mount with the allowed root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MountCheck {
    /// The allowed root is mounted.
    Same,
    /// Another folder is mounted.
    Other,
    /// The process is not visible from here: it has ended, it belongs to another PID namespace or machine, or the
    /// worker lacks permission.
    Hidden,
}

impl RootMount {
    /// Opens the root of one call.
    ///
    /// # Errors
    /// Returns the errors of [`RunRoot::open`].
    pub(super) fn open(root: RunRoot) -> Result<Self, RootError> {
        let folder = root.open()?;
        // Reads the folder's current path, even if the folder was renamed.
        let path = std::fs::read_link(format!("/proc/self/fd/{}", folder.as_raw_fd()));
        let path = path.map_err(|error| RootError::System(Errno::from_io_error(&error).unwrap_or(Errno::IO)))?;
        Ok(Self { root, folder, path })
    }

    /// Returns the path for the engine.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the root's path still leads to the opened folder.
    ///
    /// # Errors
    /// Fails if the path does not lead to a regular folder.
    pub(super) fn is_in_place(&self) -> Result<bool, RootError> {
        self.root.is_still(&self.folder)
    }

    /// Checks the mount of the container whose first process has this `pid` according to the engine, and `mark` in
    /// its environment.
    pub(super) async fn check(&self, pid: i64, mark: &str) -> MountCheck {
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(STEP).await;
            }
            // Keep it open, because the number may be reused for another process.
            let Ok(process) = openat(CWD, format!("/proc/{pid}"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) else {
                return MountCheck::Hidden;
            };
            match has_mark(&process, mark) {
                Ok(true) => return self.compare(&process, Path::new(DATA_FOLDER)),
                Ok(false) => {}
                Err(_) => return MountCheck::Hidden,
            }
        }
        MountCheck::Hidden
    }

    /// Compares the root with what this process sees at `place`. A missing folder counts as another folder, unless
    /// the process has ended.
    fn compare(&self, process: &OwnedFd, place: &Path) -> MountCheck {
        let root = || openat(process, "root", OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        let Ok(top) = root() else { return MountCheck::Hidden };
        // Resolve the image's links inside the container's root.
        let found = openat2(
            top.as_fd(),
            place,
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
        );
        match found.and_then(|found| Ok(is_same(&fstat(&found)?, &fstat(&self.folder)?))) {
            Ok(true) => MountCheck::Same,
            // An older kernel, or a container's filter, rejects the call, so the folders can't be compared.
            Err(Errno::NOSYS | Errno::PERM) => MountCheck::Hidden,
            Err(_) if root().is_err() => MountCheck::Hidden,
            Ok(false) | Err(_) => MountCheck::Other,
        }
    }
}

/// Returns whether this is the container's process. No other process has the random mark.
fn has_mark(process: &OwnedFd, mark: &str) -> std::io::Result<bool> {
    let environment = openat(process, "environ", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut text = Vec::new();
    std::fs::File::from(environment).take(MAX_ENVIRONMENT).read_to_end(&mut text)?;
    Ok(text.windows(mark.len()).any(|part| part == mark.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use openskill_sandbox::allowed_root::AllowedRoot;

    fn mounted(name: &str) -> (RootMount, PathBuf) {
        let top = std::env::temp_dir().join(format!("openskill-mounted-{}-{name}", std::process::id()));
        std::fs::create_dir_all(top.join("docs")).unwrap();
        let top = top.canonicalize().unwrap();
        let root = AllowedRoot::open(&top).unwrap().run_root("x", Some(&top.join("docs")));
        (RootMount::open(root).unwrap(), top)
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
        // Its root is this machine's root, which has no such folder or another one.
        assert_eq!(mounted.check(pid, "@mark:1234 ").await, MountCheck::Other);
        assert_eq!(mounted.check(pid, "@mark:5678 ").await, MountCheck::Hidden);
        let process = openat(CWD, format!("/proc/{pid}"), OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).unwrap();
        let seen = |place: &str| mounted.compare(&process, &top.join(place));
        assert_eq!((seen("docs"), seen(""), seen("missing")), (MountCheck::Same, MountCheck::Other, MountCheck::Other));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen("docs"), MountCheck::Hidden, "it has ended");
        assert_eq!(mounted.check(pid, "@mark:1234 ").await, MountCheck::Hidden);
        assert_eq!(mounted.check(0, "@mark:1234 ").await, MountCheck::Hidden);
        std::fs::remove_dir_all(top).unwrap();
    }
}
