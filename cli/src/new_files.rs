//! Writes new files: all of them or none.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use crate::exit::Failure;

/// A file to write. `path` is relative to the target directory.
#[derive(Debug)]
pub(crate) struct NewFile {
    pub(crate) path: String,
    pub(crate) text: String,
    pub(crate) mode: u32,
}

/// Writes files below `folder`. If any of them exists or can't be written, the others are not there either, so that
/// the command can be repeated.
///
/// # Errors
/// A file exists, or the system refuses to write it.
pub(crate) fn write_new(folder: &Path, files: &[NewFile]) -> Result<(), Failure> {
    for file in files {
        let path = folder.join(&file.path);
        if path.symlink_metadata().is_ok() {
            return Err(Failure::Usage(format!("{} already exists; nothing was written", path.display())));
        }
    }
    for (index, file) in files.iter().enumerate() {
        if let Err(failure) = write(&folder.join(&file.path), file) {
            for written in &files[..index] {
                let _ = std::fs::remove_file(folder.join(&written.path));
            }
            return Err(failure);
        }
    }
    Ok(())
}

fn write(path: &Path, file: &NewFile) -> Result<(), Failure> {
    let failed = |source: std::io::Error| Failure::System { what: format!("writing {}", path.display()), source };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(failed)?;
    }
    // `create_new`: a file created since the check above is not overwritten.
    let opened = OpenOptions::new().write(true).create_new(true).mode(file.mode).open(path);
    let mut opened = opened.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::Usage(format!("{} already exists", path.display())),
        _ => failed(error),
    })?;
    opened.write_all(file.text.as_bytes()).map_err(|error| {
        // The disk may be full. A part of the file is worse than none.
        let _ = std::fs::remove_file(path);
        failed(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn if_one_file_fails_none_is_left() {
        let folder = std::env::temp_dir().join(format!("openskill-new-files-{}", std::process::id()));
        let file = |path: &str| NewFile { path: path.to_owned(), text: "text".to_owned(), mode: 0o644 };
        let below_a_file = [file("a/one"), file("a/one/two")];
        assert!(matches!(write_new(&folder, &below_a_file), Err(Failure::System { .. })));
        assert!(!folder.join("a/one").exists());
        write_new(&folder, &below_a_file[..1]).unwrap();
        // What was there stays.
        assert!(matches!(write_new(&folder, &[file("b"), file("a/one")]), Err(Failure::Usage(_))));
        assert!(folder.join("a/one").exists() && !folder.join("b").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
