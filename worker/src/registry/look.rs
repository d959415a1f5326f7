//! Looks at skill folders: which files they hold, and when each was changed. Opens none of them.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use openskill_proto::limits::MAX_SKILLS;
use rustix::fs::{FileType, Stat, stat};

use crate::manifest::mcp::LOCK_SUFFIX;
use crate::plain_file::{self, Folder, NotPlain};

/// The relevant files, by folder and name, each with its stamp; none for a missing file that a manifest names.
pub(super) type Seen = Vec<(PathBuf, Option<Stamp>)>;

/// Change time, size and inode: one of them differs after a file was written or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    changed_ns: i128,
    size: i64,
    inode: u64,
    kind: Result<(), NotPlain>,
}

/// The file that makes a folder a toolset.
const TOOLSET: &str = "toolset.yaml";

/// The skill folders, open: what is looked at is in the folder that is then read.
pub(super) struct Folders(Vec<(PathBuf, io::Result<Folder>)>);

impl Folders {
    pub(super) fn open(paths: &[PathBuf]) -> Self {
        Self(paths.iter().map(|path| (path.clone(), Folder::open(path))).collect())
    }

    /// Reads one of their files.
    ///
    /// # Errors
    /// It is not a plain file in its skill folder, or cannot be read.
    pub(super) fn read(&self, file: &Path, most: u64) -> Result<String, NotPlain> {
        let holds_it =
            |(path, folder): &'_ (PathBuf, io::Result<Folder>)| file.strip_prefix(path).is_ok_and(|_| folder.is_ok());
        // Of folders within each other, the inner one.
        let holder = self.0.iter().filter(|it| holds_it(it)).max_by_key(|(path, _)| path.components().count());
        match holder {
            Some((path, Ok(folder))) => folder.read(file.strip_prefix(path).unwrap_or(file), most),
            _ => Err(NotPlain::System(rustix::io::Errno::NOENT)),
        }
    }

    /// Whether another process keeps one of their files from being opened now.
    pub(super) fn is_held(&self, file: &Path) -> bool {
        self.read(file, 0) == Err(NotPlain::Held)
    }

    /// The manifests and scripts of the folders, and the `named` other files that manifests name. A folder that exists and
    /// cannot be read keeps what was seen in it `before`.
    pub(super) fn look(&self, named: &[PathBuf], before: &Seen) -> Seen {
        let mut seen = Seen::new();
        for (path, folder) in &self.0 {
            match folder.as_ref().map_err(io::Error::kind).and_then(|it| look_at(it).map_err(|it| it.kind())) {
                Ok(files) => seen.extend(files),
                Err(io::ErrorKind::NotFound) => {}
                Err(error) => {
                    tracing::warn!(folder = %path.display(), %error, "a skill folder cannot be read; its skills are kept");
                    seen.extend(before.iter().filter(|(file, _)| file.starts_with(path)).cloned());
                }
            }
        }
        seen.extend(named.iter().map(|path| (path.clone(), stat(path).ok().map(|it| Stamp::of(&it)))));
        seen
    }
}

fn look_at(folder: &Folder) -> io::Result<Seen> {
    let (mut files, mut within) = (Seen::new(), Seen::new());
    for name in folder.names(Path::new("."))?.iter().filter(|name| !is_hidden(name)) {
        let Some(described) = folder.describe(Path::new(name)) else { continue };
        let (path, kind) = (folder.path().join(name), plain_file::kind(&described));
        if matches!(kind, FileType::Directory | FileType::Symlink) && look_at_toolset(folder, name, kind, &mut within) {
            continue;
        }
        if matters(&path)
            && kind != FileType::Directory
            && let Some(stamp) = stamp(&path, &described)
        {
            files.push((path, Some(stamp)));
        }
    }
    for seen in [&mut files, &mut within] {
        seen.sort_by(|one, other| one.0.cmp(&other.0));
        seen.truncate(2 * MAX_SKILLS);
    }
    files.extend(within);
    Ok(files)
}

/// The manifests of a toolset, and its own file. Whether the folder of this name is one.
fn look_at_toolset(folder: &Folder, name: &OsStr, kind: FileType, within: &mut Seen) -> bool {
    let toolset = Path::new(name);
    let Some(declared) = folder.describe(&toolset.join(TOOLSET)) else { return false };
    let path = folder.path().join(toolset);
    within.push((path.join(TOOLSET), Some(Stamp::of(&declared))));
    if kind.is_symlink() {
        // It leads out of the skill folder: reading that file says so.
        return true;
    }
    let names = match folder.names(toolset) {
        Ok(names) => names,
        // It was just removed, or cannot be read: other skills are not affected.
        Err(error) => {
            tracing::warn!(folder = %path.display(), %error, "a toolset cannot be read");
            return true;
        }
    };
    for name in names.iter().filter(|name| !is_hidden(name) && *name != TOOLSET && is_manifest(Path::new(name))) {
        if let Some(described) = folder.describe(&toolset.join(name))
            && !plain_file::kind(&described).is_dir()
        {
            within.push((path.join(name), Some(Stamp::of(&described))));
        }
    }
    true
}

/// A script may be a link to anywhere: the worker does not read it.
fn stamp(path: &Path, described: &Stat) -> Option<Stamp> {
    let leads_elsewhere = plain_file::kind(described).is_symlink();
    if leads_elsewhere && is_script(path) {
        stat(path).ok().map(|it| Stamp::of(&it))
    } else {
        Some(Stamp::of(described))
    }
}

/// Whether a file is looked at for its own sake, not because a manifest names it: in a skill folder or a toolset's.
pub(super) fn is_read(file: &Path, folders: &[PathBuf]) -> bool {
    let is_folder = |path: &Path| folders.iter().any(|folder| folder == path);
    file.parent().is_some_and(|parent| is_folder(parent) || parent.parent().is_some_and(is_folder))
}

impl Stamp {
    fn of(described: &Stat) -> Self {
        let changed_ns = i128::from(described.st_ctime) * 1_000_000_000 + i128::from(described.st_ctime_nsec);
        // A folder's stamp changes with its content; only its existence matters.
        let changed_ns = if plain_file::kind(described).is_file() { changed_ns } else { 0 };
        let kind = plain_file::plain(described);
        Self { changed_ns, size: described.st_size, inode: described.st_ino, kind }
    }

    /// Whether it was of a plain file.
    ///
    /// # Errors
    /// What it was of.
    pub(super) fn plain(&self) -> Result<(), NotPlain> {
        self.kind
    }
}

/// Kubernetes keeps the files of a ConfigMap in hidden folders, and shows them by links.
fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// Whether a file of this name is looked at wherever it lies in a skill folder.
pub(super) fn matters(path: &Path) -> bool {
    !path.file_name().is_none_or(is_hidden) && (is_manifest(path) || is_script(path) || is_lock(path))
}

pub(super) fn is_manifest(path: &Path) -> bool {
    has_extension(path, &["yaml", "yml", "json"]) && !is_lock(path)
}

/// Whether this is the file of a server's pins, which lies beside its manifest.
pub(super) fn is_lock(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().ends_with(LOCK_SUFFIX.as_bytes()))
}

pub(super) fn is_toolset(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == TOOLSET)
}

pub(super) fn is_script(path: &Path) -> bool {
    has_extension(path, &["py"])
}

fn has_extension(path: &Path, wanted: &[&str]) -> bool {
    path.extension().and_then(|it| it.to_str()).is_some_and(|it| wanted.contains(&it))
}
