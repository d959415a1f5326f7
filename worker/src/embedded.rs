//! Files that are part of the program, and how they get into a folder.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use openskill_proto::trace::hex;
use openskill_sandbox::trusted_folder;
use sha2::{Digest as _, Sha256};

/// A file that is part of the program: its path below a folder, and its text.
pub(crate) type EmbeddedFile = (&'static str, &'static str);

/// Writes files into a folder. Replaces them, and leaves all others.
///
/// # Errors
/// A file or folder can't be written.
pub(crate) fn write(files: &[EmbeddedFile], folder: &Path) -> io::Result<()> {
    for (name, text) in files {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        let missing: Vec<_> = parent.ancestors().take_while(|it| *it != folder && !it.exists()).collect();
        fs::create_dir_all(parent)?;
        // Skills may run as other users than the worker, whatever its umask is.
        for created in missing {
            fs::set_permissions(created, Permissions::from_mode(0o755))?;
        }
        // A new file replaces the old one: a running skill may be reading it, and a link would lead elsewhere.
        let mut temporary = OsString::from(&path);
        temporary.push(format!(".{}.new", std::process::id()));
        // A process with the same id may have been killed here.
        let _ = fs::remove_file(&temporary);
        let written = write_new(temporary.as_ref(), text).and_then(|()| fs::rename(&temporary, &path));
        written.inspect_err(|_| drop(fs::remove_file(&temporary)))?;
    }
    Ok(())
}

/// Writes a file that everybody can read. Follows no link: fails if something has its name.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.write_all(text.as_bytes())?;
    file.set_permissions(Permissions::from_mode(0o644))
}

/// Returns whether a folder has these texts. A worker that was killed may have written a part of them.
pub(crate) fn are_in(files: &[EmbeddedFile], folder: &Path) -> bool {
    files.iter().all(|(name, text)| fs::read(folder.join(name)).is_ok_and(|it| it == text.as_bytes()))
}

/// Returns everything in a folder except folders and these files. Follows no links.
pub(crate) fn others(folder: &Path, files: &HashSet<PathBuf>) -> io::Result<Vec<PathBuf>> {
    let (mut others, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            if kind.is_dir() {
                folders.push(path);
            } else if !kind.is_file() || !files.contains(&path) {
                others.push(path);
            }
        }
    }
    Ok(others)
}

/// Returns a name for these texts, so that workers of several versions can share a cache.
pub(crate) fn version<'a>(files: impl IntoIterator<Item = &'a EmbeddedFile>) -> String {
    let mut hash = Sha256::new();
    for (name, text) in files {
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    hex(&hash.finalize()[..8])
}

/// Creates a cache if it does not exist. It must not be a link.
///
/// # Errors
/// The folder can't be written, or others can write to it.
pub(crate) fn make_cache(cache: &Path) -> io::Result<()> {
    trusted_folder::make(cache)?;
    if fs::symlink_metadata(cache)?.is_dir() { Ok(()) } else { Err(trusted_folder::refusal()) }
}

/// Creates a folder in a cache. The users of skills can read both, whatever the worker's umask is.
///
/// # Errors
/// The folder can't be written.
pub(crate) fn make_readable(cache: &Path, folder: &Path) -> io::Result<()> {
    for it in [cache, folder] {
        DirBuilder::new().recursive(true).create(it)?;
        fs::set_permissions(it, Permissions::from_mode(0o755))?;
    }
    Ok(())
}
