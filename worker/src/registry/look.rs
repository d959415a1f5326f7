//! Lists the files in skill folders with their change stamps, without opening the files.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use openskill_proto::limits::MAX_SKILLS;
use openskill_sandbox::plain_file::{self, NotPlain, PlainFolder};
use rustix::fs::{FileType, Stat, stat};

use crate::manifest::mcp::LOCK_SUFFIX;

/// The relevant files, by folder and name, each with its stamp. `None` for a missing file that a manifest names.
pub(super) type FileStamps = Vec<(PathBuf, Option<Stamp>)>;

/// A file's change time, size and inode. At least one changes when the file is written or replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamp {
    changed_ns: i128,
    size: i64,
    inode: u64,
    /// What the file is, if it is not a plain file.
    pub(super) plain: Result<(), NotPlain>,
}

/// Marks a folder as a toolset.
const TOOLSET: &str = "toolset.yaml";

/// The skill folders, opened once, so that files are read from the same folders that were listed.
pub(super) struct Folders(Vec<(PathBuf, io::Result<PlainFolder>)>);

impl Folders {
    pub(super) fn open(paths: &[PathBuf]) -> Self {
        Self(paths.iter().map(|path| (path.clone(), PlainFolder::open(path))).collect())
    }

    /// Reads a file in one of the folders.
    ///
    /// # Errors
    /// Fails if it is not a plain file in its skill folder, or can't be read.
    pub(super) fn read(&self, file: &Path, most: u64) -> Result<String, NotPlain> {
        let holds_it = |(path, folder): &'_ (PathBuf, io::Result<PlainFolder>)| {
            file.strip_prefix(path).is_ok_and(|_| folder.is_ok())
        };
        // For nested folders, use the innermost one.
        let holder = self.0.iter().filter(|it| holds_it(it)).max_by_key(|(path, _)| path.components().count());
        match holder {
            Some((path, Ok(folder))) => folder.read(file.strip_prefix(path).unwrap_or(file), most),
            _ => Err(NotPlain::System(rustix::io::Errno::NOENT)),
        }
    }

    /// Lists the manifests and scripts in the folders, and other files that manifests name (`named`). Keeps the
    /// stamps of `before` for a folder that exists but can't be read.
    pub(super) fn stamp_files(&self, named: &[PathBuf], before: &FileStamps) -> FileStamps {
        let mut seen = FileStamps::new();
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
        seen.extend(named.iter().map(|path| (path.clone(), stat(path).ok().map(|it| Stamp::from_stat(&it)))));
        seen
    }
}

fn look_at(folder: &PlainFolder) -> io::Result<FileStamps> {
    let (mut files, mut within) = (FileStamps::new(), FileStamps::new());
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

/// Lists a toolset's manifests, scripts and lock files, and its `toolset.yaml`. Returns whether the folder with this
/// name is a toolset.
fn look_at_toolset(folder: &PlainFolder, name: &OsStr, kind: FileType, within: &mut FileStamps) -> bool {
    let toolset = Path::new(name);
    let Some(declared) = folder.describe(&toolset.join(TOOLSET)) else { return false };
    let path = folder.path().join(toolset);
    within.push((path.join(TOOLSET), Some(Stamp::from_stat(&declared))));
    if kind.is_symlink() {
        // The link leads out of the skill folder. The read of the file reports this.
        return true;
    }
    let names = match folder.names(toolset) {
        Ok(names) => names,
        // The folder was just removed or can't be read. This must not affect other skills.
        Err(error) => {
            tracing::warn!(folder = %path.display(), %error, "a toolset cannot be read");
            return true;
        }
    };
    for name in names.iter().filter(|name| *name != TOOLSET && matters(Path::new(name))) {
        if let Some(described) = folder.describe(&toolset.join(name))
            && !plain_file::kind(&described).is_dir()
        {
            let file = path.join(name);
            within.extend(stamp(&file, &described).map(|it| (file, Some(it))));
        }
    }
    true
}

/// Returns a file's stamp. A script may be a link to any place, because the worker does not read it.
fn stamp(path: &Path, described: &Stat) -> Option<Stamp> {
    let leads_elsewhere = plain_file::kind(described).is_symlink();
    if leads_elsewhere && is_script(path) {
        stat(path).ok().map(|it| Stamp::from_stat(&it))
    } else {
        Some(Stamp::from_stat(described))
    }
}

/// Returns whether a file is listed even if no manifest names it, because it is in a skill folder or a toolset.
pub(super) fn is_read(file: &Path, folders: &[PathBuf]) -> bool {
    let is_folder = |path: &Path| folders.iter().any(|folder| folder == path);
    file.parent().is_some_and(|parent| is_folder(parent) || parent.parent().is_some_and(is_folder))
}

impl Stamp {
    fn from_stat(described: &Stat) -> Self {
        let changed_ns = i128::from(described.st_ctime) * 1_000_000_000 + i128::from(described.st_ctime_nsec);
        // A folder's times change with its content, but only its existence matters.
        let changed_ns = if plain_file::kind(described).is_file() { changed_ns } else { 0 };
        let plain = plain_file::plain(described);
        Self { changed_ns, size: described.st_size, inode: described.st_ino, plain }
    }
}

/// Returns whether a name is hidden. Kubernetes keeps a ConfigMap's files in hidden folders and links to them.
fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// Returns whether a file with this name is relevant anywhere in a skill folder.
pub(super) fn matters(path: &Path) -> bool {
    !path.file_name().is_none_or(is_hidden) && (is_manifest(path) || is_script(path) || is_lock(path))
}

pub(super) fn is_manifest(path: &Path) -> bool {
    has_extension(path, &["yaml", "yml", "json"]) && !is_lock(path)
}

/// Returns whether this is a lock file, which contains a server's pins and is next to its manifest.
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
