//! A private folder for one run's temporary files.
//!
//! Its name identifies the supervisor that created it ([`FolderOwner`]). This distinguishes the remains of a killed
//! supervisor from folders in use.

use std::hash::BuildHasher as _;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, chownat};
use rustix::process::{Gid, Uid};

use super::identity::User;
use super::removal::{self, Budget};
use crate::folder_owner::FolderOwner;

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
        // The hasher has random keys, so an attacker can't predict the name and create the folder first.
        let random = std::hash::RandomState::new().hash_one(std::process::id());
        let path = base.join(format!("{PREFIX}{}-{random:016x}", FolderOwner::own()?));
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
    let Ok(own) = FolderOwner::own() else { return };
    let begun = Instant::now();
    for entry in std::fs::read_dir(base).into_iter().flatten().flatten().take(MOST_ENTRIES) {
        if begun.elapsed() > SWEEP.time {
            return;
        }
        let owner = entry.file_name().to_str().and_then(|name| FolderOwner::parse_name(name, PREFIX));
        if owner.is_some_and(|it| it.is_gone(&own)) {
            removal::remove(&entry.path(), SWEEP, begun);
        }
    }
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
        let own = FolderOwner::own().unwrap().to_string();
        let (space, _) = own.split_once('-').unwrap();
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
