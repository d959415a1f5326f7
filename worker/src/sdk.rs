//! The Python SDK, which is part of the program, so that skills of every project can import it.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::embedded::{self, EmbeddedFile};

/// The name of the package.
pub const PACKAGE: &str = "openskill_sdk";

/// The files of the package. Their paths begin at its parent folder.
const FILES: &[EmbeddedFile] = &include!(concat!(env!("OUT_DIR"), "/sdk.rs"));

/// Returns whether a folder contains the package, so that Python finds it there, and whether it can call functions: the
/// package of an older version can't.
pub(crate) fn is_in(folder: &Path) -> bool {
    ["__init__.py", "functions.py"].iter().all(|name| folder.join(PACKAGE).join(name).is_file())
}

/// Writes the package into a folder. Replaces its files, and leaves all others.
///
/// # Errors
/// A file or folder can't be written.
pub fn write(folder: &Path) -> io::Result<()> {
    embedded::write(FILES, folder)
}

/// Provides the package below `cache`, in a folder for these texts, which it returns.
///
/// # Errors
/// The folder can't be written, or others can write to it.
pub(crate) fn provide(cache: &Path) -> io::Result<PathBuf> {
    embedded::make_cache(cache)?;
    let folder = cache.join(embedded::version(FILES));
    if !embedded::are_in(FILES, &folder) {
        embedded::make_readable(cache, &folder)?;
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
        assert!(embedded::are_in(FILES, &written));
        fs::remove_dir_all(&folder).unwrap();
    }
}
