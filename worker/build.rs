//! Lists the files of the Python SDK, which is part of the program: `src/sdk.rs` includes the list.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SDK: &str = "skills/openskill_sdk";

fn main() -> std::io::Result<()> {
    let root = std::env::current_dir()?.join("skills");
    let mut files = Vec::new();
    collect(&root.join("openskill_sdk"), &mut files)?;
    files.sort();
    let mut list = "[\n".to_owned();
    for file in &files {
        let name = file.strip_prefix(&root).unwrap_or(file);
        let _ = writeln!(list, "    ({name:?}, include_str!({file:?})),");
    }
    println!("cargo:rerun-if-changed={SDK}");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    std::fs::write(out.join("sdk.rs"), list + "]\n")
}

/// Adds the files of the package, without what Python itself writes.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("__pycache__") {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|it| it == "py" || it == "typed") {
            files.push(path);
        }
    }
    Ok(())
}
