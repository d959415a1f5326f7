//! Writes files that users then edit. Existing files are never overwritten.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::exit::Failure;
use crate::terminal::print_out;

/// A file to write. `path` is relative to the target directory.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) executable: bool,
}

/// Writes files below `folder` and prints their names. If any of them exists, fails before writing anything.
pub(super) fn write_all(folder: &Path, files: &[File]) -> Result<(), Failure> {
    for file in files {
        let path = folder.join(&file.path);
        if path.symlink_metadata().is_ok() {
            return Err(Failure::Usage(format!("{} already exists; nothing was written", path.display())));
        }
    }
    for file in files {
        write(&folder.join(&file.path), file)?;
        print_out(&format!("wrote {}\n", folder.join(&file.path).display()));
    }
    Ok(())
}

fn write(path: &Path, file: &File) -> Result<(), Failure> {
    let failed = |source: std::io::Error| Failure::System { what: format!("writing {}", path.display()), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    let mode = if file.executable { 0o755 } else { 0o644 };
    let mut options = OpenOptions::new();
    // `create_new`: a file created since the check above is not overwritten.
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    let mut opened = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::Usage(format!("{} already exists", path.display())),
        _ => failed(error),
    })?;
    opened.write_all(file.text.as_bytes()).map_err(failed)
}
