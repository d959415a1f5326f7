//! The packages of a session: a folder that its process reads, and that the worker fills while the process runs.
//!
//! ```text
//! place/             of one fork server, and so of one owner: its sessions see it at this path, read-only
//!   └── <session>/   a folder of sys.path: links to files of the store, which nobody changes
//! ```
//!
//! A link is the file itself: nothing is copied, and it stays when the store removes its own. Knows nothing of where packages
//! come from.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use openskill_proto::trace::{hex, random_id};

/// The most packages of a session, and the most that their files may have, in bytes.
pub(crate) const MOST_PACKAGES: usize = 64;
pub(crate) const MOST_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// A folder that the sessions of one fork server see. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
    /// Keeps other workers from removing the folder above.
    _lock: Arc<File>,
}

/// The packages of one session. Dropping it removes the folder.
#[derive(Debug)]
pub(crate) struct Shelf {
    path: PathBuf,
    all: Vec<Package>,
    _place: Arc<Place>,
}

/// A package in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// Normalized.
    pub(crate) name: String,
    pub(crate) version: String,
    /// Of its wheel.
    pub(crate) sha256: String,
    /// The size of its files together, in bytes.
    pub(crate) bytes: u64,
    /// What it consists of: plain files and folders, which nobody changes.
    pub(crate) files: PathBuf,
}

/// Why packages are not added. The session has what it had before.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the session already has {name} {version}, and can't change its version: use another session")]
    OtherVersion { name: String, version: String },
    #[error("a session has at most {MOST_PACKAGES} packages: use another session")]
    TooMany,
    #[error("the packages of a session have at most {MOST_BYTES} bytes: use another session")]
    TooLarge,
    #[error("the files of a package could not be linked: {0}")]
    Disk(#[from] io::Error),
}

impl Place {
    /// Makes one in a folder of which `lock` says that it is in use.
    ///
    /// # Errors
    /// It can't be made.
    pub(crate) fn make(within: &Path, lock: Arc<File>) -> io::Result<Arc<Self>> {
        let path = within.join(unguessable());
        make_folder(&path)?;
        Ok(Arc::new(Self { path, _lock: lock }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder of a new session.
    ///
    /// # Errors
    /// It can't be made.
    pub(crate) fn shelf(self: &Arc<Self>) -> io::Result<Shelf> {
        let path = self.path.join(unguessable());
        make_folder(&path)?;
        Ok(Shelf { path, all: Vec::new(), _place: Arc::clone(self) })
    }
}

impl Shelf {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds what is not there yet, all of it or nothing. How many were added. Blocks on the disk.
    ///
    /// # Errors
    /// Nothing was added.
    pub(crate) fn add(&mut self, wanted: &[Package]) -> Result<usize, Refusal> {
        let mut new = Vec::new();
        for package in wanted {
            match self.all.iter().find(|it| it.name == package.name) {
                None => new.push(package.clone()),
                Some(own) if own.sha256 == package.sha256 => {}
                Some(own) => {
                    let (name, version) = (own.name.clone(), own.version.clone());
                    return Err(Refusal::OtherVersion { name, version });
                }
            }
        }
        if self.all.len() + new.len() > MOST_PACKAGES {
            return Err(Refusal::TooMany);
        }
        if self.all.iter().chain(&new).map(|it| it.bytes).sum::<u64>() > MOST_BYTES {
            return Err(Refusal::TooLarge);
        }
        let mut made = Made::default();
        for package in &new {
            link(&package.files, &self.path, &mut made)?;
        }
        // The interpreter looks again only if the time differs from what it last saw, whatever the clock's steps are.
        File::open(&self.path)?.set_modified(SystemTime::now())?;
        made.stays();
        let count = new.len();
        self.all.extend(new);
        Ok(count)
    }
}

impl Drop for Shelf {
    fn drop(&mut self) {
        remove_aside(std::mem::take(&mut self.path));
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        remove_aside(std::mem::take(&mut self.path));
    }
}

/// What was made for a package. Dropped before it stays, it is removed.
#[derive(Default)]
struct Made {
    /// Folders before what is in them.
    paths: Vec<PathBuf>,
}

impl Made {
    fn stays(mut self) {
        self.paths.clear();
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        for path in self.paths.drain(..).rev() {
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
    }
}

/// Links all files of a folder into another. Where two packages have a file of the same path, that of the first stays.
fn link(from: &Path, to: &Path, made: &mut Made) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_type()?.is_dir() {
            match make_folder(&target) {
                Ok(()) => made.paths.push(target.clone()),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && target.is_dir() => {}
                Err(error) => return Err(error),
            }
            link(&source, &target, made)?;
        } else {
            match fs::hard_link(&source, &target) {
                Ok(()) => made.paths.push(target),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// A folder that all users may read, whatever the worker's mask is.
fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Removes a folder without keeping a thread that serves.
fn remove_aside(path: PathBuf) {
    let remove = move || {
        if let Err(error) = fs::remove_dir_all(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            // The next worker that starts removes it.
            tracing::debug!(%error, "the packages of a session were not removed");
        }
    };
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(remove)),
        Err(_) => remove(),
    }
}

/// An unguessable name.
pub(crate) fn unguessable() -> String {
    hex(&random_id::<16>())
}

#[cfg(test)]
mod tests;
