//! Removes a folder that a skill filled, with a limited amount of work, and nothing outside it.
//!
//! It follows no symbolic links and does not recurse. It first moves nested folders to the top, so that depth
//! costs neither stack nor descriptors.

use std::ffi::CString;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, openat, renameat, unlinkat};
use rustix::io::Errno;

/// Limits the work of one removal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Budget {
    /// The maximum number of entries that it looks at.
    pub(super) entries: usize,
    /// The maximum time that it takes.
    pub(super) time: Duration,
}

/// Removes the folder within the budget. Returns whether the whole folder was removed.
pub(super) fn remove(path: &Path, budget: Budget, begun: Instant) -> bool {
    let is_removed = || matches!(unlinkat(CWD, path, AtFlags::REMOVEDIR), Ok(()) | Err(Errno::NOENT));
    if is_removed() {
        return true;
    }
    let mut work = Work { left: budget.entries, end: begun + budget.time, moved: 0 };
    let Some(top) = open(CWD, path) else { return false };
    while !work.is_over() && work.empty(top.as_fd()) {
        if is_removed() {
            return true;
        }
    }
    false
}

struct Work {
    left: usize,
    end: Instant,
    moved: u64,
}

impl Work {
    fn is_over(&self) -> bool {
        self.left == 0 || Instant::now() > self.end
    }

    /// Passes over the top folder once. Returns whether anything changed.
    fn empty(&mut self, top: BorrowedFd<'_>) -> bool {
        let mut changed = false;
        for name in self.names(top) {
            if unlinkat(top, &name, AtFlags::empty()).is_ok() || unlinkat(top, &name, AtFlags::REMOVEDIR).is_ok() {
                changed = true;
                continue;
            }
            let Some(folder) = open(top, &name) else { continue };
            changed |= self.flatten(top, folder.as_fd());
            changed |= unlinkat(top, &name, AtFlags::REMOVEDIR).is_ok();
        }
        changed
    }

    /// Removes the files of a folder and moves its subfolders to the top. Returns whether anything changed.
    fn flatten(&mut self, top: BorrowedFd<'_>, folder: BorrowedFd<'_>) -> bool {
        let mut changed = false;
        for name in self.names(folder) {
            let gone = unlinkat(folder, &name, AtFlags::empty()).is_ok()
                || unlinkat(folder, &name, AtFlags::REMOVEDIR).is_ok();
            changed |= gone || self.lift(top, folder, &name);
        }
        changed
    }

    fn lift(&mut self, top: BorrowedFd<'_>, folder: BorrowedFd<'_>, name: &CString) -> bool {
        // Moving a folder requires write permission for it. `open` gives this to its owner.
        drop(open(folder, name));
        for _ in 0..8 {
            self.moved += 1;
            if renameat(folder, name, top, format!(".moved-{}", self.moved)).is_ok() {
                return true;
            }
        }
        false
    }

    /// Returns the names in a folder, at most as many as the budget allows.
    fn names(&mut self, folder: BorrowedFd<'_>) -> Vec<CString> {
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).into_iter().flatten().flatten() {
            if self.is_over() {
                break;
            }
            if ![c".", c".."].contains(&entry.file_name()) {
                self.left -= 1;
                names.push(entry.file_name().to_owned());
            }
        }
        names
    }
}

/// Opens a folder, but not a link to one. Restores the owner's permissions if they were removed.
fn open(at: BorrowedFd<'_>, name: impl rustix::path::Arg + Copy) -> Option<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let readable = |folder: &OwnedFd| {
        let mode = Mode::from_raw_mode(rustix::fs::fstat(folder).map_or(0, |it| it.st_mode));
        mode.contains(Mode::RWXU)
    };
    match openat(at, name, flags, Mode::empty()) {
        Ok(folder) if readable(&folder) => Some(folder),
        Ok(_) | Err(Errno::ACCESS) => {
            let place = openat(at, name, flags | OFlags::PATH, Mode::empty()).ok()?;
            let itself = format!("/proc/self/fd/{}", place.as_raw_fd());
            std::fs::set_permissions(itself, std::fs::Permissions::from_mode(0o700)).ok()?;
            openat(at, name, flags, Mode::empty()).ok()
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: Budget = Budget { entries: 100_000, time: Duration::from_secs(60) };

    fn folder(name: &str) -> std::path::PathBuf {
        let path = std::env::temp_dir().join(format!("openskill-removal-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_link_is_removed_and_not_what_it_leads_to() {
        let (kept, top) = (folder("kept"), folder("links"));
        std::fs::write(kept.join("file"), "x").unwrap();
        std::os::unix::fs::symlink(&kept, top.join("link")).unwrap();
        std::fs::create_dir(top.join("sub")).unwrap();
        std::os::unix::fs::symlink(&kept, top.join("sub/link")).unwrap();
        assert!(remove(&top, BUDGET, Instant::now()));
        assert!(kept.join("file").exists() && !top.exists());
        std::fs::remove_dir_all(kept).unwrap();
    }

    #[test]
    fn depth_and_locked_folders_do_not_matter() {
        let top = folder("deep");
        let mut at = openat(CWD, &top, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        for _ in 0..300 {
            rustix::fs::mkdirat(&at, ".moved-3", Mode::RWXU).unwrap();
            at = openat(&at, ".moved-3", OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).unwrap();
        }
        std::fs::create_dir_all(top.join("locked/within")).unwrap();
        std::fs::write(top.join("locked/within/file"), "x").unwrap();
        std::fs::set_permissions(top.join("locked/within"), std::fs::Permissions::from_mode(0o0)).unwrap();
        std::fs::set_permissions(top.join("locked"), std::fs::Permissions::from_mode(0o0)).unwrap();
        assert!(remove(&top, BUDGET, Instant::now()));
        assert!(!top.exists());
    }

    #[test]
    fn the_work_is_bounded() {
        let top = folder("bounded");
        for number in 0..100 {
            std::fs::write(top.join(number.to_string()), "x").unwrap();
        }
        assert!(!remove(&top, Budget { entries: 10, ..BUDGET }, Instant::now()));
        assert_eq!(std::fs::read_dir(&top).unwrap().count(), 90);
        assert!(remove(&top, BUDGET, Instant::now()));
    }
}
