//! A private folder for the temporary files of one run.
//!
//! Its name says who made it: a supervisor, by its process id, the time it was started, and the id space both belong to.
//! So what a killed supervisor left behind can be told from what is in use.

use std::hash::BuildHasher as _;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, chownat};
use rustix::process::{Gid, Uid};

use super::identity::User;
use super::removal::{self, Budget};
use crate::process::tree;

const PREFIX: &str = "openskill-run-";

/// What a supervisor may take to empty the folder. The worker waits for its end, and sweeps up the rest.
const AT_END: Budget = Budget { entries: 20_000, time: Duration::from_millis(250) };

/// What a fork server's supervisor may take for each call.
const OF_FORK: Budget = Budget { entries: 2000, time: Duration::from_millis(20) };

/// What one sweep may take.
const SWEEP: Budget = Budget { entries: 100_000, time: Duration::from_secs(1) };

/// How many entries of the folder that holds all of them one sweep looks at.
const MOST_ENTRIES: usize = 100_000;

/// The folder. Dropping it removes it with all that is in it, as far as a bounded effort goes.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    /// Makes it beneath `base`, for `owner`, or else for the calling user; nobody else can enter it.
    pub(super) fn make(base: &Path, owner: Option<User>) -> io::Result<Self> {
        let (space, pid) = (id_space()?, std::process::id());
        let start = tree::started(pid).ok_or(io::ErrorKind::NotFound)?;
        // The hasher's keys are random: nobody can guess the name and be there first.
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

impl Drop for Folder {
    fn drop(&mut self) {
        removal::remove(&self.0, AT_END, Instant::now());
    }
}

/// Removes a part of such a folder. Others wait meanwhile: what is not done soon is done when the whole folder goes.
pub(super) fn empty(path: &Path) {
    removal::remove(path, OF_FORK, Instant::now());
}

/// Removes the folders beneath `base` whose supervisor is no more. Reads folders: not for a thread that serves.
pub(crate) fn sweep(base: &Path) {
    let Ok(space) = id_space() else { return };
    let begun = Instant::now();
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten().take(MOST_ENTRIES) {
        if begun.elapsed() > SWEEP.time {
            return;
        }
        if entry.file_name().to_str().and_then(Owner::parse).is_some_and(|it| it.space == space && it.is_gone()) {
            removal::remove(&entry.path(), SWEEP, begun);
        }
    }
}

/// Who made a folder.
#[derive(Debug, PartialEq, Eq)]
struct Owner {
    space: u64,
    pid: u32,
    start: u64,
}

impl Owner {
    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.splitn(4, '-');
        let (space, pid, start) = (parts.next()?, parts.next()?, parts.next()?);
        parts.next()?;
        Some(Self { space: space.parse().ok()?, pid: pid.parse().ok()?, start: start.parse().ok()? })
    }

    fn is_gone(&self) -> bool {
        tree::started(self.pid) != Some(self.start)
    }
}

/// The space of process ids this process belongs to: `pid:[4026531836]`.
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
        let folder = Folder::make(&std::env::temp_dir(), None).unwrap();
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
        let alive = Folder::make(&base, None).unwrap();
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
