//! A folder of environments, or of session packages. Workers share it, on one host or over a network file system.
//!
//! | path | content |
//! |---|---|
//! | `<key>/` | a complete entry, which was moved here atomically |
//! | `<key>/openskill.json` | its recipe; the modification time is that of the last use, accurate to hours |
//! | `.lock-<key>` | locked (flock(2)) by the process that builds, uses or removes the entry with this key |
//! | `.new-<key>/` | an entry that is being built, or was when its worker was killed |
//! | `.old-<key>/` | an entry that is being removed |
//! | `.use-<key>/` | a private folder of a worker while it lives |

use std::collections::HashSet;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use openskill_sandbox::{plain_file, trusted_folder};
use rustix::fs::{Access, access, syncfs};

/// The file that marks a folder as a complete entry.
const RECORD: &str = "openskill.json";

/// The accuracy of the recorded last use. Environments are kept for at least a day.
const EXACTNESS: Duration = Duration::from_secs(6 * 3600);

/// The maximum size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 1024 * 1024;

/// The maximum size of a script whose interpreter path is changed, in bytes.
const MAX_SCRIPT_BYTES: u64 = 1024 * 1024;

#[derive(Debug, Clone)]
pub(crate) struct Store(PathBuf);

impl Store {
    /// Opens the folder, or creates it.
    ///
    /// # Errors
    /// Fails if the folder can't be created, or if other users may write to it and could replace skills' packages.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        trusted_folder::make(folder).map(|()| Self(folder.to_owned()))
    }

    /// Checks whether [`open`](Self::open) would succeed, without creating anything.
    ///
    /// # Errors
    /// Fails if the folder, or the one to create it in, can't be written.
    pub(crate) fn check(folder: &Path) -> io::Result<()> {
        let existing = folder.ancestors().find(|it| it.exists()).unwrap_or(Path::new("/"));
        access(existing, Access::WRITE_OK | Access::EXEC_OK)?;
        if existing == folder { Self::open(folder).map(drop) } else { Ok(()) }
    }

    /// Finds the environment with this key, and records that it is used. Returns `None` if it does not exist or
    /// other users may write to the folder.
    pub(crate) fn find(folder: &Path, key: &str) -> Option<PathBuf> {
        if !trusted_folder::is_trusted(&fs::metadata(folder).ok()?) {
            return None;
        }
        let environment = folder.join(key);
        if !trusted_folder::is_own(&fs::symlink_metadata(&environment).ok()?) {
            return None;
        }
        let record = environment.join(RECORD);
        let used = fs::metadata(&record).ok()?.modified().ok()?;
        if used.elapsed().is_ok_and(|since| since > EXACTNESS) {
            // If this fails, the folder belongs to another user, whose workers record its use.
            let _ = File::open(&record).and_then(|file| file.set_modified(SystemTime::now()));
        }
        Some(environment)
    }

    /// Returns whether the environment with this key exists. Does not count as a use.
    pub(crate) fn has(folder: &Path, key: &str) -> bool {
        folder.join(key).join(RECORD).is_file()
    }

    /// Counts the environments in a folder.
    pub(crate) fn count(folder: &Path) -> usize {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        let is_one = |entry: &fs::DirEntry| !entry.file_name().as_encoded_bytes().starts_with(b".");
        entries.filter(|entry| is_one(entry) && entry.path().join(RECORD).is_file()).count()
    }

    /// Takes the lock that permits building or removing this environment. Returns `None` if another process holds
    /// it.
    ///
    /// # Errors
    /// Fails if the lock file can't be created.
    pub(crate) fn lock(&self, key: &str) -> io::Result<Option<File>> {
        let path = self.0.join(format!(".lock-{key}"));
        loop {
            let Some(file) = trusted_folder::try_lock(&path)? else { return Ok(None) };
            // A sweep may have removed the file since it was opened. Locking an unlinked file is useless.
            if fs::metadata(&path).is_ok_and(|it| file.metadata().is_ok_and(|own| own.ino() == it.ino())) {
                return Ok(Some(file));
            }
        }
    }

    /// Creates a private folder for this process. Workers keep it while the process holds this key's lock.
    ///
    /// # Errors
    /// Fails if the folder can't be created.
    pub(crate) fn make_own(&self, key: &str) -> io::Result<PathBuf> {
        let own = self.0.join(format!(".use-{key}"));
        fs::create_dir(&own)?;
        fs::set_permissions(&own, Permissions::from_mode(0o755))?;
        Ok(own)
    }

    /// Removes a private folder and its lock. The key is never reused.
    ///
    /// # Errors
    /// Fails if a part of the folder remains. The next sweep removes it.
    pub(crate) fn remove_own(&self, key: &str) -> io::Result<()> {
        remove(&self.0.join(format!(".use-{key}")))?;
        fs::remove_file(self.0.join(format!(".lock-{key}")))
    }

    /// Removes the remains of killed workers, and unused locks. Returns the number of removed folders.
    ///
    /// # Errors
    /// Fails if the folder can't be read.
    pub(crate) fn sweep(&self) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.0)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Some(key) = [".new-", ".old-", ".use-", ".lock-"].iter().find_map(|it| name.strip_prefix(it)) else {
                continue;
            };
            let Some(_lock) = self.lock(key)? else { continue };
            for left in [".new-", ".old-", ".use-"].map(|kind| self.0.join(format!("{kind}{key}"))) {
                if left.exists() {
                    remove(&left)?;
                    removed += 1;
                }
            }
            let _ = fs::remove_file(self.0.join(format!(".lock-{key}")));
        }
        Ok(removed)
    }

    /// Removes the least recently used entries until at most `most` are left, with at most `most_bytes` in total
    /// according to `bytes_of`. Keeps entries in use, which count too. Returns the number of removed entries.
    ///
    /// # Errors
    /// Fails if the folder can't be read.
    pub(crate) fn trim(&self, most: usize, most_bytes: u64, bytes_of: impl Fn(&str) -> u64) -> io::Result<usize> {
        let used = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok().filter(|it| !it.starts_with('.'))?;
            let used = fs::metadata(entry.path().join(RECORD)).ok()?.modified().ok()?;
            let bytes = bytes_of(&name);
            Some((used, name, bytes))
        };
        let mut all: Vec<_> = fs::read_dir(&self.0)?.flatten().filter_map(used).collect();
        all.sort();
        let mut bytes = all.iter().map(|(_, _, bytes)| bytes).fold(0, |sum: u64, it| sum.saturating_add(*it));
        let (mut count, mut removed) = (all.len(), 0);
        for (_, name, own) in all {
            if count <= most && bytes <= most_bytes {
                break;
            }
            if self.remove_if_old(&name, Duration::ZERO)? {
                (count, bytes, removed) = (count - 1, bytes.saturating_sub(own), removed + 1);
            }
        }
        Ok(removed)
    }

    /// Reads the record that is stored with an entry.
    pub(crate) fn record(&self, key: &str) -> Option<String> {
        plain_file::read_in_folder(&self.0.join(key).join(RECORD), MAX_RECORD_BYTES).ok()
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the folder in which to build an environment, without the remains of a killed worker. The caller
    /// must hold the lock.
    ///
    /// # Errors
    /// Fails if the remains can't be removed.
    pub(crate) fn begin(&self, key: &str) -> io::Result<PathBuf> {
        let new = self.new_folder(key);
        remove(&new)?;
        Ok(new)
    }

    /// Removes an incomplete environment.
    pub(crate) fn give_up(&self, key: &str) {
        let _ = remove(&self.new_folder(key));
    }

    /// Publishes a complete environment that was built in the folder from [`Store::begin`].
    ///
    /// # Errors
    /// Fails if the disk is full or a file can't be changed.
    pub(crate) fn publish(&self, key: &str, record: &str) -> io::Result<PathBuf> {
        let (new, path) = (self.new_folder(key), self.0.join(key));
        move_scripts(&new, &path)?;
        fs::write(new.join(RECORD), record)?;
        open_to_all(&new)?;
        // Flush all files to disk before the folder is renamed.
        syncfs(File::open(&self.0)?)?;
        remove(&path)?;
        fs::rename(&new, &path)?;
        Ok(path)
    }

    /// Removes environments that were not used for this long, except those `in_use`. Returns the number of removed
    /// environments.
    ///
    /// # Errors
    /// Fails if the folder can't be read.
    pub(crate) fn clean(&self, keep: Duration, in_use: &HashSet<String>) -> io::Result<usize> {
        let mut removed = 0;
        for entry in fs::read_dir(&self.0)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            if let Some(key) = name.strip_prefix(".old-") {
                let lock = self.lock(key)?;
                if lock.is_some() {
                    let _ = remove(&entry.path());
                }
            } else if !name.starts_with('.') && !in_use.contains(&name) && self.remove_if_old(&name, keep)? {
                removed += 1;
            }
        }
        Ok(removed)
    }

    fn remove_if_old(&self, key: &str, keep: Duration) -> io::Result<bool> {
        let is_old = || {
            let used = fs::metadata(self.0.join(key).join(RECORD)).and_then(|it| it.modified());
            used.is_ok_and(|it| it.elapsed().is_ok_and(|since| since > keep))
        };
        if !is_old() {
            return Ok(false);
        }
        let Some(_lock) = self.lock(key)? else { return Ok(false) };
        // Another worker may have started to use it meanwhile.
        if !is_old() {
            return Ok(false);
        }
        let old = self.0.join(format!(".old-{key}"));
        remove(&old)?;
        fs::rename(self.0.join(key), &old)?;
        remove(&old)?;
        Ok(true)
    }

    fn new_folder(&self, key: &str) -> PathBuf {
        self.0.join(format!(".new-{key}"))
    }
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Changes the interpreter path in an environment's scripts to its final location.
fn move_scripts(new: &Path, path: &Path) -> io::Result<()> {
    let (before, after) = (new.to_string_lossy().into_owned(), path.to_string_lossy().into_owned());
    let programs = match fs::read_dir(new.join("bin")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        programs => programs?,
    };
    for entry in programs {
        let file = entry?.path();
        let found = fs::symlink_metadata(&file)?;
        if !found.is_file() || found.len() > MAX_SCRIPT_BYTES {
            continue;
        }
        // A file that is not text is not a script.
        let Ok(text) = fs::read_to_string(&file) else { continue };
        if text.contains(&before) {
            fs::write(&file, text.replace(&before, &after))?;
        }
    }
    Ok(())
}

/// Makes a folder readable for all users. Skills may run as another user, and the worker's umask may hide the
/// files.
fn open_to_all(folder: &Path) -> io::Result<()> {
    let found = fs::metadata(folder)?;
    fs::set_permissions(folder, Permissions::from_mode(found.mode() | 0o555))?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        if kind.is_dir() {
            open_to_all(&entry.path())?;
        } else if kind.is_file() {
            let mode = entry.metadata()?.mode();
            let wanted = mode | if mode & 0o100 == 0 { 0o444 } else { 0o555 };
            if wanted != mode {
                fs::set_permissions(entry.path(), Permissions::from_mode(wanted))?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    #[test]
    fn an_environment_in_a_folder_that_others_may_write_to_is_not_used() {
        let folder = TempFolder::new("foreign");
        let store = Store::open(&folder.0).unwrap();
        fs::create_dir_all(folder.0.join("key")).unwrap();
        fs::write(folder.0.join("key").join(RECORD), "{}").unwrap();
        assert!(Store::find(&store.0, "key").is_some());
        fs::set_permissions(&folder.0, Permissions::from_mode(0o777)).unwrap();
        assert!(Store::find(&store.0, "key").is_none());
    }

    struct TempFolder(PathBuf);

    impl TempFolder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("openskill-store-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }

        /// Builds an environment with one script, but does not publish it.
        fn build(&self, store: &Store, key: &str) {
            let new = store.begin(key).unwrap();
            fs::create_dir_all(new.join("bin")).unwrap();
            fs::write(new.join("bin/tool"), format!("#!{}/bin/python\n", new.display())).unwrap();
            fs::set_permissions(new.join("bin"), Permissions::from_mode(0o700)).unwrap();
            fs::set_permissions(new.join("bin/tool"), Permissions::from_mode(0o700)).unwrap();
        }

        /// Sets the last use to this many days ago.
        fn age(&self, key: &str, days: u32) {
            let record = File::open(self.0.join(key).join(RECORD)).unwrap();
            record.set_modified(SystemTime::now() - DAY * days).unwrap();
        }
    }

    impl Drop for TempFolder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn an_environment_is_there_once_it_is_complete() {
        let folder = TempFolder::new("complete");
        let store = Store::open(&folder.0).unwrap();
        folder.build(&store, "one");
        assert_eq!(Store::find(&folder.0, "one"), None, "it is being built");
        let path = store.publish("one", "{}").unwrap();
        assert_eq!(Store::find(&folder.0, "one"), Some(path.clone()));
        let script = fs::read_to_string(path.join("bin/tool")).unwrap();
        assert_eq!(script, format!("#!{}/bin/python\n", path.display()));
        assert_eq!(fs::metadata(path.join("bin/tool")).unwrap().mode() & 0o777, 0o755);
        assert_eq!(fs::metadata(path.join("bin")).unwrap().mode() & 0o777, 0o755);
    }

    #[test]
    fn what_a_killed_worker_left_half_built_is_removed_by_the_next() {
        let folder = TempFolder::new("killed");
        let store = Store::open(&folder.0).unwrap();
        folder.build(&store, "one");
        let new = store.begin("one").unwrap();
        assert!(!new.exists());
    }

    #[test]
    fn one_process_at_a_time_builds_an_environment() {
        let folder = TempFolder::new("locked");
        let store = Store::open(&folder.0).unwrap();
        let lock = store.lock("one").unwrap();
        assert!(lock.is_some() && store.lock("one").unwrap().is_none() && store.lock("two").unwrap().is_some());
        drop(lock);
        assert!(store.lock("one").unwrap().is_some());
    }

    #[test]
    fn what_dead_workers_left_is_swept_up_and_what_the_living_have_stays() {
        let folder = TempFolder::new("swept");
        let store = Store::open(&folder.0).unwrap();
        folder.build(&store, "dead");
        folder.build(&store, "living");
        folder.build(&store, "done");
        store.publish("done", "{}").unwrap();
        let living = store.lock("living").unwrap();
        let own = store.lock("own").unwrap();
        store.make_own("own").unwrap();
        store.make_own("foreign").unwrap();
        drop(store.lock("foreign").unwrap());
        assert_eq!(store.sweep().unwrap(), 2);
        let left = |name: &str| folder.0.join(name).exists();
        assert!(!left(".new-dead") && !left(".use-foreign") && !left(".lock-foreign"));
        assert!(left(".new-living") && left(".use-own") && left("done"));
        assert!(store.lock("own").unwrap().is_none(), "it is still held");
        store.remove_own("own").unwrap();
        drop((living, own));
        assert!(!left(".use-own") && !left(".lock-own"));
    }

    #[test]
    fn the_entries_used_least_recently_make_room() {
        let folder = TempFolder::new("trimmed");
        let store = Store::open(&folder.0).unwrap();
        for (key, days) in [("older", 4), ("old", 3), ("newer", 1), ("new", 2)] {
            folder.build(&store, key);
            store.publish(key, "{}").unwrap();
            folder.age(key, days);
        }
        let bytes = |key: &str| if key.starts_with("old") { 10 } else { 50 };
        assert_eq!((store.trim(4, 120, bytes).unwrap(), store.trim(3, 120, bytes).unwrap()), (0, 1));
        assert!(!folder.0.join("older").exists());
        assert_eq!(store.trim(3, 60, bytes).unwrap(), 2, "the oldest is not enough");
        assert!(folder.0.join("newer").exists());
    }

    #[test]
    fn an_environment_that_nobody_uses_is_removed_by_age() {
        let folder = TempFolder::new("old");
        let store = Store::open(&folder.0).unwrap();
        for key in ["new", "old", "used", "asked", "held"] {
            folder.build(&store, key);
            store.publish(key, "{}").unwrap();
        }
        for key in ["old", "used", "asked", "held"] {
            folder.age(key, 31);
        }
        let _held = store.lock("held").unwrap();
        Store::find(&folder.0, "asked").unwrap();
        let in_use = HashSet::from(["used".to_owned()]);
        assert_eq!(store.clean(DAY * 30, &in_use).unwrap(), 1);
        assert!(!folder.0.join("old").exists());
        for key in ["new", "used", "asked", "held"] {
            assert!(folder.0.join(key).exists(), "{key}");
        }
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = TempFolder::new("shared");
        fs::create_dir_all(&folder.0).unwrap();
        fs::set_permissions(&folder.0, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(Store::open(&folder.0).unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }
}
