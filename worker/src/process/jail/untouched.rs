//! Whether a folder is as if it had just been made: then it may serve once more, and no state crosses with it.

use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RawDir, Statx, StatxAttributes, StatxFlags, StatxTimestamp, flistxattr, openat, statx,
};
use rustix::io::Errno;

/// What somebody may have set, that a new folder does not have.
const SET: StatxAttributes = StatxAttributes::IMMUTABLE.union(StatxAttributes::APPEND).union(StatxAttributes::NODUMP);

/// Room for the entries of a folder that has none.
const ENTRIES_BYTES: usize = 1024;

/// Whether a folder that was made for its user alone was never changed since, nor even read: whatever is done to it, what is
/// in it or what it has beside, moves one of its times. On a kernel whose clock for files stands still for a few
/// milliseconds something could have been done in the first of them; so what it has is looked at as well.
///
/// # Errors
/// It can't be looked at.
pub(super) fn is_as_made(path: &Path) -> rustix::io::Result<bool> {
    // To look leaves no trace.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NOATIME | OFlags::CLOEXEC;
    let folder = openat(CWD, path, flags, Mode::empty())?;
    let facts = statx(&folder, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
    if !never_changed(&facts) || facts.stx_attributes.intersects(SET) {
        return Ok(false);
    }
    match flistxattr(&folder, &mut [0; 0]) {
        Ok(0) | Err(Errno::NOTSUP) => {}
        _ => return Ok(false),
    }
    let mut room = [std::mem::MaybeUninit::uninit(); ENTRIES_BYTES];
    let mut entries = RawDir::new(&folder, &mut room);
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn never_changed(facts: &Statx) -> bool {
    let born = time(facts.stx_btime);
    let known = StatxFlags::from_bits_retain(facts.stx_mask).contains(StatxFlags::BASIC_STATS | StatxFlags::BTIME);
    known
        && facts.stx_mode & 0o7777 == 0o700
        && [facts.stx_ctime, facts.stx_mtime, facts.stx_atime].into_iter().all(|it| time(it) == born)
}

fn time(stamp: StatxTimestamp) -> (i64, u32) {
    (stamp.tv_sec, stamp.tv_nsec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt};
    use std::path::PathBuf;

    struct New(PathBuf);

    impl New {
        fn make() -> Self {
            let path = std::env::temp_dir().join(format!("openskill-untouched-{:016x}", random()));
            std::fs::DirBuilder::new().mode(0o700).create(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for New {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    fn random() -> u64 {
        use std::hash::BuildHasher as _;
        std::hash::RandomState::new().hash_one(0)
    }

    #[test]
    fn a_new_folder_is_as_made_however_often_one_looks() {
        let new = New::make();
        if !is_as_made(&new.0).unwrap() {
            let facts = statx(CWD, &new.0, AtFlags::empty(), StatxFlags::BTIME).unwrap();
            assert_eq!(facts.stx_mask & StatxFlags::BTIME.bits(), 0, "this file system knows when it was made");
            eprintln!("skipped: this file system does not say when a folder was made");
            return;
        }
        assert!(is_as_made(&new.0).unwrap());
    }

    #[test]
    fn whatever_was_done_to_it_is_seen() {
        type Done = fn(&Path);
        let deeds: [(&str, Done); 5] = [
            ("a file in it", |it| std::fs::write(it.join("file"), "x").unwrap()),
            ("a folder in it", |it| std::fs::create_dir(it.join("folder")).unwrap()),
            ("a mode", |it| std::fs::set_permissions(it, std::fs::Permissions::from_mode(0o755)).unwrap()),
            ("times", |it| {
                let long_ago = std::time::SystemTime::UNIX_EPOCH;
                std::fs::File::open(it).unwrap().set_modified(long_ago).unwrap();
            }),
            ("another in its place", |it| {
                std::fs::remove_dir(it).unwrap();
                std::os::unix::fs::symlink("/", it).unwrap();
            }),
        ];
        for (what, deed) in deeds {
            let new = New::make();
            deed(&new.0);
            assert!(!is_as_made(&new.0).unwrap_or(false), "{what}");
            let _ = std::fs::remove_file(&new.0);
        }
    }

    /// The clock for files may stand still for some milliseconds: what is done within them leaves its trace or nothing.
    #[test]
    fn a_file_that_is_gone_again_is_seen_once_the_clock_has_moved() {
        let new = New::make();
        let until = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while is_as_made(&new.0).unwrap() && std::time::Instant::now() < until {
            std::fs::write(new.0.join("file"), "x").unwrap();
            std::fs::remove_file(new.0.join("file")).unwrap();
        }
        assert!(!is_as_made(&new.0).unwrap());
    }
}
