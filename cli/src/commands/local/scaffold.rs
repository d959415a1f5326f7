//! Files that commands write for people to go on with. Existing ones are never overwritten.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::exit::Failure;
use crate::terminal::say;

/// A file to write. `path` is relative to the directory that is written to.
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) executable: bool,
}

/// Writes files below `folder` and names each. One that exists is an error, before anything is written.
pub(super) fn write_all(folder: &Path, files: &[File]) -> Result<(), Failure> {
    for file in files {
        let path = folder.join(&file.path);
        if path.symlink_metadata().is_ok() {
            return Err(Failure::Usage(format!("{} already exists; nothing was written", path.display())));
        }
    }
    for file in files {
        write(&folder.join(&file.path), file)?;
        say(&format!("wrote {}\n", folder.join(&file.path).display()));
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
    // A file created since the check above is not overwritten either.
    let opened = options.write(true).create_new(true).mode(mode).open(path);
    let mut opened = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::Usage(format!("{} already exists", path.display())),
        _ => failed(error),
    })?;
    opened.write_all(file.text.as_bytes()).map_err(failed)
}
