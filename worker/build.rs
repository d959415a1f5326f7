//! Lists the files that are part of the program: those of the Python SDK, which `src/sdk.rs` includes, and those of
//! each set of shipped skills, which `src/shipped.rs` includes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const SDK: &str = "openskill_sdk";

/// The folders of toolsets.
const TOOLSETS: [&str; 4] = ["browser_use", "deepsearch", "mcp-search-tool", "microsandbox"];

/// The files of the toolset `core`, which has no folder of its own.
const CORE: [&str; 11] = [
    "ask_user.py",
    "ask_user.yaml",
    "calculator.py",
    "calculator.yaml",
    "echo.py",
    "echo.yaml",
    "file_search.py",
    "file_search.yaml",
    "log_formats/__init__.py",
    "log_transform.py",
    "log_transform.yaml",
];

/// What makes a folder with these files a toolset.
const CORE_TOOLSET: &str = "toolset: core\ndescription: Calculates, searches files, converts logs and asks the user.\n";

fn main() -> std::io::Result<()> {
    let skills = std::env::current_dir()?.join("skills");
    let in_folder = |name: &str| {
        println!("cargo:rerun-if-changed=skills/{name}");
        let mut files = Vec::new();
        collect(&skills.join(name), &mut files).map(|()| files)
    };
    write_list("sdk", &skills, in_folder(SDK)?, "")?;
    for toolset in TOOLSETS {
        write_list(toolset, &skills.join(toolset), in_folder(toolset)?, "")?;
    }
    CORE.iter().for_each(|it| println!("cargo:rerun-if-changed=skills/{it}"));
    let toolset = format!("    (\"toolset.yaml\", {CORE_TOOLSET:?}),\n");
    write_list("core", &skills, CORE.map(|it| skills.join(it)).to_vec(), &toolset)
}

/// Writes the list `NAME.rs`: the path of each file below `root`, and its text, after `first`.
fn write_list(name: &str, root: &Path, mut files: Vec<PathBuf>, first: &str) -> std::io::Result<()> {
    files.sort();
    let mut list = format!("[\n{first}");
    for file in &files {
        let path = file.strip_prefix(root).unwrap_or(file);
        let _ = writeln!(list, "    ({path:?}, include_str!({file:?})),");
    }
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    std::fs::write(out.join(name).with_extension("rs"), list + "]\n")
}

/// Adds the files of a folder, without what Python itself writes.
fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() && !path.ends_with("__pycache__") {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|it| it == "py" || it == "typed" || it == "yaml") {
            files.push(path);
        }
    }
    Ok(())
}
