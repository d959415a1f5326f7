//! A private folder for one run's temporary files.
//!
//! Its name identifies the supervisor that created it, by its process id, its start time, and the namespace of the
//! id. This distinguishes the remains of a killed supervisor from folders in use.

use std::hash::BuildHasher as _;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, chownat};
use rustix::process::{Gid, Uid};

use super::identity::User;
use super::removal::{self, Budget};
use crate::tree;

const PREFIX: &str = "openskill-run-";

/// A supervisor's budget for emptying the folder. The worker waits for this, and a sweep removes the rest.
const AT_END: Budget = Budget { entries: 20_000, time: Duration::from_millis(250) };

/// The budget of a fork server's supervisor for each call.
const OF_FORK: Budget = Budget { entries: 2000, time: Duration::from_millis(20) };

/// The budget of a single sweep.
const SWEEP: Budget = Budget { entries: 100_000, time: Duration::from_secs(1) };

/// The maximum number of the parent folder's entries that one sweep looks at.
const MOST_ENTRIES: usize = 100_000;

/// A temporary folder. Dropping it removes it and its content, within a budget.
#[derive(Debug)]
pub(super) struct TempFolder(PathBuf);

impl TempFolder {
    /// Creates a folder below `base`, for `owner` or by default the calling user. No other user can enter it.
    pub(super) fn make(base: &Path, owner: Option<User>) -> io::Result<Self> {
        let (space, pid) = (id_space()?, std::process::id());
        let start = tree::start_time(pid).ok_or(io::ErrorKind::NotFound)?;
        // The hasher has random keys, so an attacker can't predict the name and create the folder first.
        let random = std::hash::RandomState::new().hash_one(pid);
        let path = base.join(format!("{PREFIX}{space}-{pid}-{start}-{random:016x}"));
        std::fs::DirBuilder::new().mode(0o700).create(&path)?;
        let folder = Self(path);
        if let Some(User { uid, gid }) = owner {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            chownat(CWD, &folder.0, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        removal::remove(&self.0, AT_END, Instant::now());
    }
}

/// Empties a part of the folder. Other calls wait meanwhile, so slow content is left until the whole folder is
/// removed.
pub(super) fn empty(path: &Path) {
    removal::remove(path, OF_FORK, Instant::now());
}

/// Removes the folders below `base` whose supervisor is dead. Reads folders, so do not call it on a thread that
/// serves requests.
pub(crate) fn sweep(base: &Path) {
    let Ok(space) = id_space() else { return };
    let begun = Instant::now();
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten().take(MOST_ENTRIES) {
        if begun.elapsed() > SWEEP.time {
            return;
        }
        if entry
            .file_name()
            .to_str()
            .and_then(TempFolderOwner::parse)
            .is_some_and(|it| it.space == space && it.is_gone())
        {
            removal::remove(&entry.path(), SWEEP, begun);
        }
    }
}

/// The process that created a folder.
#[derive(Debug, PartialEq, Eq)]
struct TempFolderOwner {
    space: u64,
    pid: u32,
    start: u64,
}

impl TempFolderOwner {
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(4, '-');
        let (space, pid, start) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next()?;
        Some(Self { space: space.parse().ok()?, pid: pid.parse().ok()?, start: start.parse().ok()? })
    }

    fn is_gone(&self) -> bool {
        tree::start_time(self.pid) != Some(self.start)
    }
}

/// Returns the number of this process's process-id namespace, from `pid:[4026531836]`.
fn id_space() -> io::Result<u64> {
    let link = std::fs::read_link("/proc/self/ns/pid")?;
    let number = link.to_str().and_then(|it| it.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok());
    number.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_private_and_gone_with_its_value() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = TempFolder::make(&std::env::temp_dir(), None).unwrap();
        let path = folder.path().to_owned();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::create_dir_all(path.join("a/b/c")).unwrap();
        std::fs::write(path.join("a/b/x"), "x").unwrap();
        drop(folder);
        assert!(!path.exists());
    }

    #[test]
    fn a_sweep_takes_what_the_dead_left_and_nothing_else() {
        let base = std::env::temp_dir().join(format!("openskill-sweep-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let alive = TempFolder::make(&base, None).unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        child.wait().unwrap();
        let space = id_space().unwrap();
        let dead = base.join(format!("{PREFIX}{space}-{pid}-1-0"));
        let elsewhere = base.join(format!("{PREFIX}1-{pid}-1-0"));
        for path in [&dead, &elsewhere, &base.join("other")] {
            std::fs::create_dir(path).unwrap();
        }
        sweep(&base);
        assert!(!dead.exists() && elsewhere.exists() && alive.path().exists() && base.join("other").exists());
        drop(alive);
        std::fs::remove_dir_all(&base).unwrap();
    }
}
