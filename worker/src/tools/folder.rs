//! The folder of installed servers, which workers and the operator share. It is a skill folder in which each
//! server is a toolset.
//!
//! | path | content |
//! |---|---|
//! | `<id>/` | an installed server, which was moved here atomically |
//! | `<id>/.installed.json` | who installed it, when, and which version |
//! | `.lock` | locked (flock(2)) by the process that installs or removes |
//! | `.<id>.partial/` | a server that is being written, or was when its worker was killed |
//! | `.<id>.removed/` | a server that is being removed |
//!
//! Names that begin with a dot are not skills. The process that gets the lock removes the remains of killed
//! processes.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use openskill_sandbox::{plain_file, trusted_folder};
use rustix::fs::{RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::index::{Entry, pretty};

/// Marks a folder as an installed server.
const RECORD: &str = ".installed.json";

/// The maximum size of a record, in bytes.
const MAX_RECORD_BYTES: u64 = 64 * 1024;

/// The maximum number of servers that are listed.
const MOST_SERVERS: usize = 1000;

const PARTIAL: &str = ".partial";
const REMOVED: &str = ".removed";

/// The folder of installed servers.
#[derive(Debug, Clone)]
pub struct ToolsFolder(PathBuf);

/// The right to install and remove servers, while it is held.
#[derive(Debug)]
pub(crate) struct Lock(File);

/// The record of an installation, in the server's folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The server's id.
    pub id: String,
    /// The version that was installed.
    pub version: String,
    /// The ids of its tools.
    pub tools: Vec<String>,
    /// The principal who installed it, or the operator.
    pub by: String,
    /// The time of the installation, in RFC 3339.
    pub at: String,
    /// The trace id of the call that installed it. Empty for the operator.
    #[serde(default)]
    pub trace_id: String,
}

/// The reasons why a server could not be published or removed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// A server or another file with this name exists.
    #[error("'{0}' already exists")]
    Taken(String),
    /// No server with this name is installed.
    #[error("no server '{0}' is installed")]
    NotInstalled(String),
    /// The system failed to change the folder.
    #[error("the folder of installed tools (OPENSKILL_TOOLS_DIR) can't be used: {0}")]
    System(#[from] io::Error),
}

impl ToolsFolder {
    /// Represents the folder at a path, which need not exist.
    pub fn at(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Creates the folder if it does not exist.
    ///
    /// # Errors
    /// Fails if it can't be created, or if other users may write to it, because its content is executed.
    pub(crate) fn make(&self) -> io::Result<()> {
        trusted_folder::make(&self.0)
    }

    /// Locks the folder for changes, unless another process has locked it. Removes the remains of killed
    /// processes.
    ///
    /// # Errors
    /// Fails if the lock file can't be created or the remains can't be removed.
    pub(crate) fn lock(&self) -> io::Result<Option<Lock>> {
        let Some(file) = trusted_folder::try_lock(&self.0.join(".lock"))? else { return Ok(None) };
        for entry in fs::read_dir(&self.0)?.flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') && (name.ends_with(PARTIAL) || name.ends_with(REMOVED)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(Some(Lock(file)))
    }

    /// Returns whether this server's name exists.
    pub(crate) fn has(&self, id: &str) -> bool {
        fs::symlink_metadata(self.0.join(id)).is_ok()
    }

    /// Reads the record of a server that was installed here.
    pub(crate) fn record(&self, id: &str) -> Option<Record> {
        let text = plain_file::read_in_folder(&self.0.join(id).join(RECORD), MAX_RECORD_BYTES).ok()?;
        serde_json::from_str::<Record>(&text).ok().filter(|it| it.id == id)
    }

    /// Reads the records of all servers that were installed here, by id.
    pub(crate) fn records(&self) -> BTreeMap<String, Record> {
        let names = fs::read_dir(&self.0).into_iter().flatten().flatten().map(|it| it.file_name());
        let ids = names.filter_map(|it| it.into_string().ok()).filter(|it| !it.starts_with('.'));
        ids.take(MOST_SERVERS).filter_map(|id| Some((id.clone(), self.record(&id)?))).collect()
    }

    /// Returns the path of a server's manifest, whether or not it exists.
    pub(super) fn manifest(&self, entry: &Entry) -> PathBuf {
        self.0.join(&entry.id).join(entry.manifest_name())
    }

    /// Publishes a server atomically. Before this, nothing of it is served. Afterwards, all of it is.
    ///
    /// # Errors
    /// Fails if the name is taken or the disk fails. Then nothing is published.
    pub(super) fn publish(&self, _lock: &Lock, entry: &Entry, record: &Record) -> Result<PathBuf, FolderError> {
        let partial = self.0.join(format!(".{}{PARTIAL}", entry.id));
        let written = self.write(&partial, entry, record);
        if written.is_err() {
            let _ = fs::remove_dir_all(&partial);
        }
        written
    }

    fn write(&self, partial: &Path, entry: &Entry, record: &Record) -> Result<PathBuf, FolderError> {
        fs::create_dir(partial)?;
        for (name, text) in entry.files().into_iter().chain([(RECORD.to_owned(), pretty(&json!(record)))]) {
            let mut file = File::create_new(partial.join(name))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
        }
        File::open(partial)?.sync_all()?;
        let (folder, path) = (File::open(&self.0)?, self.0.join(&entry.id));
        // Never replace anything, not even an empty folder.
        let moved = renameat_with(&folder, partial, &folder, &path, RenameFlags::NOREPLACE);
        match moved {
            Err(rustix::io::Errno::EXIST) => return Err(FolderError::Taken(entry.id.clone())),
            moved => moved.map_err(io::Error::from)?,
        }
        folder.sync_all()?;
        Ok(path)
    }

    /// Removes a server that was installed here, atomically.
    ///
    /// # Errors
    /// Fails if it was not installed here or the disk fails.
    pub(crate) fn remove(&self, _lock: &Lock, id: &str) -> Result<Record, FolderError> {
        let record = self.record(id).ok_or_else(|| FolderError::NotInstalled(id.to_owned()))?;
        let removed = self.0.join(format!(".{id}{REMOVED}"));
        fs::rename(self.0.join(id), &removed)?;
        File::open(&self.0)?.sync_all()?;
        // The next process that gets the lock removes the rest.
        let _ = fs::remove_dir_all(removed);
        Ok(record)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let _ = self.0.unlock();
    }
}

#[cfg(test)]
mod tests {
    use super::super::index::tests::entry;
    use super::*;

    struct Place(ToolsFolder);

    impl Place {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("openskill-tools-{}-{name}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            let folder = ToolsFolder::at(&path);
            folder.make().unwrap();
            Self(folder)
        }

        fn names(&self) -> Vec<String> {
            let name = |it: fs::DirEntry| it.file_name().into_string().unwrap();
            let mut names: Vec<_> = fs::read_dir(&self.0.0).unwrap().flatten().map(name).collect();
            names.sort();
            names
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0.0);
        }
    }

    fn record(id: &str) -> Record {
        let (version, by, at) = ("1.0".to_owned(), "operator".to_owned(), "2026-11-25T00:00:00Z".to_owned());
        Record { id: id.to_owned(), version, tools: vec![format!("{id}__now")], by, at, trace_id: String::new() }
    }

    #[test]
    fn a_server_comes_and_goes_in_one_step() {
        let place = Place::new("step");
        let lock = place.0.lock().unwrap().unwrap();
        let clock = entry("clock", "Tells the time.");
        place.0.publish(&lock, &clock, &record("clock")).unwrap();
        assert_eq!(place.names(), [".lock", "clock"]);
        assert_eq!(place.0.record("clock"), Some(record("clock")));
        assert!(place.0.manifest(&clock).is_file());
        assert!(matches!(place.0.remove(&lock, "other"), Err(FolderError::NotInstalled(_))));
        assert_eq!(place.0.remove(&lock, "clock").unwrap(), record("clock"));
        assert_eq!(place.names(), [".lock"]);
    }

    #[test]
    fn nothing_is_overwritten_and_what_was_not_installed_is_not_removed() {
        let place = Place::new("kept");
        let lock = place.0.lock().unwrap().unwrap();
        let own = place.0.0.join("clock");
        fs::create_dir(&own).unwrap();
        let refused = place.0.publish(&lock, &entry("clock", "Tells the time."), &record("clock"));
        assert!(matches!(refused, Err(FolderError::Taken(_))), "{refused:?}");
        assert!(matches!(place.0.remove(&lock, "clock"), Err(FolderError::NotInstalled(_))));
        assert_eq!(place.names(), [".lock", "clock"]);
        assert_eq!(fs::read_dir(own).unwrap().count(), 0);
    }

    #[test]
    fn what_a_killed_process_left_is_removed_by_the_next_and_one_at_a_time_installs() {
        let place = Place::new("left");
        fs::create_dir_all(place.0.0.join(".clock.partial/x")).unwrap();
        fs::create_dir_all(place.0.0.join(".git.removed")).unwrap();
        let lock = place.0.lock().unwrap();
        assert_eq!(place.names(), [".lock"]);
        assert!(lock.is_some() && place.0.lock().unwrap().is_none());
        drop(lock);
        assert!(place.0.lock().unwrap().is_some());
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let place = Place::new("open");
        fs::set_permissions(&place.0.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(place.0.make().is_err());
    }
}
