//! The Python SDK, which is part of the program, so that skills of every project can import it.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use sha2::{Digest as _, Sha256};

/// The name of the package.
pub const PACKAGE: &str = "openskill_sdk";

/// The files of the package: the path below its parent folder, and the text.
const FILES: &[(&str, &str)] = &include!(concat!(env!("OUT_DIR"), "/sdk.rs"));

/// Returns whether a folder contains the package, so that Python finds it there, and whether it can call functions: the
/// package of an older version can't.
pub(crate) fn is_in(folder: &Path) -> bool {
    ["__init__.py", "functions.py"].iter().all(|name| folder.join(PACKAGE).join(name).is_file())
}

/// Writes the package into a folder. Replaces its files, and leaves all others.
///
/// # Errors
/// A file or folder can't be written, or is a symbolic link.
pub fn write(folder: &Path) -> io::Result<()> {
    for (name, text) in FILES {
        let path = folder.join(name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent)?;
        // Skills may run as other users than the worker, whatever its umask is.
        if parent != folder {
            fs::set_permissions(parent, Permissions::from_mode(0o755))?;
        }
        // A new file replaces the old one: a running skill may be reading it, and a link would lead elsewhere.
        let mut temporary = OsString::from(&path);
        temporary.push(format!(".{}.new", std::process::id()));
        let mut file = File::create(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.set_permissions(Permissions::from_mode(0o644))?;
        fs::rename(&temporary, &path)?;
    }
    Ok(())
}

/// Provides the package below `cache`, in a folder for these texts, which it returns.
///
/// # Errors
/// The folder can't be written, or others can write to it.
pub(crate) fn provide(cache: &Path) -> io::Result<PathBuf> {
    DirBuilder::new().recursive(true).mode(0o755).create(cache)?;
    let found = fs::symlink_metadata(cache)?;
    let is_own = found.uid() == geteuid().as_raw() || found.uid() == 0;
    if !found.is_dir() || !is_own || found.mode() & 0o022 != 0 {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "other users can write to it"));
    }
    let folder = cache.join(version());
    if !is_complete(&folder) {
        for it in [cache, &folder] {
            DirBuilder::new().recursive(true).create(it)?;
            fs::set_permissions(it, Permissions::from_mode(0o755))?;
        }
        write(&folder)?;
    }
    Ok(folder)
}

/// Returns whether an environment with this folder of packages has the package, installed or linked.
pub(crate) fn is_installed(site_packages: &Path) -> bool {
    let link = site_packages.join(PACKAGE).with_extension("pth");
    is_in(site_packages)
        || fs::read_to_string(link).is_ok_and(|text| text.lines().any(|line| is_in(&site_packages.join(line))))
}

/// Returns whether a folder has exactly these texts. A worker that was killed may have written a part of them.
fn is_complete(folder: &Path) -> bool {
    FILES.iter().all(|(name, text)| fs::read(folder.join(name)).is_ok_and(|it| it == text.as_bytes()))
}

/// Identifies the texts, so that workers of several versions can share a cache.
fn version() -> String {
    let mut hash = Sha256::new();
    for (name, text) in FILES {
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(text.as_bytes());
        hash.update([0]);
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_package_is_written_whole_and_repaired_where_it_is_not() {
        let folder = std::env::temp_dir().join(format!("openskill-worker-sdk-{}", std::process::id()));
        let written = provide(&folder).unwrap();
        assert!(written.starts_with(&folder) && is_in(&written), "{written:?}");
        assert!(written.join(PACKAGE).join("py.typed").is_file());
        fs::remove_file(written.join(PACKAGE).join("functions.py")).unwrap();
        assert!(!is_in(&written), "an older package can't call functions");
        fs::write(written.join(PACKAGE).join("__init__.py"), "").unwrap();
        assert_eq!(provide(&folder).unwrap(), written);
        assert!(is_complete(&written));
        fs::remove_dir_all(&folder).unwrap();
    }
}
