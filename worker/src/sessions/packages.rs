//! A session's packages: a folder that its process reads, and that the worker fills while the process runs.
//!
//! ```text
//! place/             of one fork server, and so of one owner: its sessions see it at this path, read-only
//!   └── <session>/   a folder of sys.path: links to files of the store, which never change
//! ```
//!
//! The links are hard links. Nothing is copied, and a file remains when the store removes its own link. This
//! module does not know where packages come from.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use openskill_proto::trace::{hex, random_id};

/// The maximum number of a session's packages, and the maximum total size of their files in bytes.
pub(crate) const MOST_PACKAGES: usize = 64;
pub(crate) const MOST_BYTES: u64 = 2 * 1024 * 1024 * 1024;

/// A folder that one fork server's sessions see. Dropping it removes the folder.
#[derive(Debug)]
pub(crate) struct PackageRoot {
    path: PathBuf,
    /// Prevents other workers from removing the parent folder.
    _lock: Arc<File>,
}

/// One session's packages. Dropping it removes the folder.
#[derive(Debug)]
pub(crate) struct PackageDir {
    path: PathBuf,
    all: Vec<Package>,
    _place: Arc<PackageRoot>,
}

/// A package in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// The normalized package name.
    pub(crate) name: String,
    pub(crate) version: String,
    /// The SHA-256 of the wheel.
    pub(crate) sha256: String,
    /// The total size of the files, in bytes.
    pub(crate) bytes: u64,
    /// The folder with the package's content: plain files and folders that never change.
    pub(crate) files: PathBuf,
}

/// The reasons why packages are not added. The session keeps its earlier packages.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackageRefusal {
    #[error("the session already has {name} {version}, and can't change its version: use another session")]
    OtherVersion { name: String, version: String },
    #[error("a session has at most {MOST_PACKAGES} packages: use another session")]
    TooMany,
    #[error("the packages of a session have at most {MOST_BYTES} bytes: use another session")]
    TooLarge,
    #[error("the files of a package could not be linked: {0}")]
    Disk(#[from] io::Error),
}

impl PackageRoot {
    /// Creates a folder inside one that `lock` marks as used.
    ///
    /// # Errors
    /// Fails if the folder can't be created.
    pub(crate) fn make(within: &Path, lock: Arc<File>) -> io::Result<Arc<Self>> {
        let path = within.join(unguessable());
        make_folder(&path)?;
        Ok(Arc::new(Self { path, _lock: lock }))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a new session's folder.
    ///
    /// # Errors
    /// Fails if the folder can't be created.
    pub(crate) fn make_dir(self: &Arc<Self>) -> io::Result<PackageDir> {
        let path = self.path.join(unguessable());
        make_folder(&path)?;
        Ok(PackageDir { path, all: Vec::new(), _place: Arc::clone(self) })
    }
}

impl PackageDir {
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Adds missing packages, either all or none. Returns the number of added packages. Blocks on the disk.
    ///
    /// # Errors
    /// If it fails, no package was added.
    pub(crate) fn add(&mut self, wanted: &[Package]) -> Result<usize, PackageRefusal> {
        let mut new = Vec::new();
        for package in wanted {
            match self.all.iter().find(|it| it.name == package.name) {
                None => new.push(package.clone()),
                Some(own) if own.sha256 == package.sha256 => {}
                Some(own) => {
                    let (name, version) = (own.name.clone(), own.version.clone());
                    return Err(PackageRefusal::OtherVersion { name, version });
                }
            }
        }
        if self.all.len() + new.len() > MOST_PACKAGES {
            return Err(PackageRefusal::TooMany);
        }
        if self.all.iter().chain(&new).map(|it| it.bytes).sum::<u64>() > MOST_BYTES {
            return Err(PackageRefusal::TooLarge);
        }
        let mut made = NewPaths::default();
        for package in &new {
            link(&package.files, &self.path, &mut made)?;
        }
        // The interpreter scans again only if the time differs from the last one that it saw, however coarse the
        // clock is.
        File::open(&self.path)?.set_modified(SystemTime::now())?;
        made.keep();
        let count = new.len();
        self.all.extend(new);
        Ok(count)
    }
}

impl Drop for PackageDir {
    fn drop(&mut self) {
        remove_aside(std::mem::take(&mut self.path));
    }
}

impl Drop for PackageRoot {
    fn drop(&mut self) {
        remove_aside(std::mem::take(&mut self.path));
    }
}

/// The paths that were created for a package. Dropping it removes them, unless they are kept.
#[derive(Default)]
struct NewPaths {
    /// The paths, with folders before their content.
    paths: Vec<PathBuf>,
}

impl NewPaths {
    fn keep(mut self) {
        self.paths.clear();
    }
}

impl Drop for NewPaths {
    fn drop(&mut self) {
        for path in self.paths.drain(..).rev() {
            let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir(&path));
        }
    }
}

/// Hard-links all files of a folder into another folder. If two packages have the same path, the first one's file
/// stays.
fn link(from: &Path, to: &Path, made: &mut NewPaths) -> io::Result<()> {
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

/// Creates a folder that all users may read, whatever the worker's umask is.
fn make_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new().create(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

fn remove_aside(path: PathBuf) {
    run_aside(move || {
        if let Err(error) = fs::remove_dir_all(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            // The next worker that starts removes it.
            tracing::debug!(%error, "the packages of a session were not removed");
        }
    });
}

/// Runs blocking work without blocking a thread that serves requests.
pub(crate) fn run_aside(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}

/// Generates a random, unguessable name.
pub(crate) fn unguessable() -> String {
    hex(&random_id::<16>())
}

#[cfg(test)]
mod tests;
