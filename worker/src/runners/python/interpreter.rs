//! Finds the Python that runs scripts, once, and asks for its version.

use std::path::{Path, PathBuf};
use std::process::Command as StdCommand;

/// The oldest Python whose standard library the SDK and the shipped skills use.
const OLDEST: (u32, u32) = (3, 9);

/// A Python interpreter that was found and asked for its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// The interpreter itself: what a shim or a wrapper would start.
    pub(crate) path: PathBuf,
    /// Major and minor version.
    pub(crate) version: (u32, u32),
    /// Where its libraries are: what it has to be able to read.
    pub(crate) prefixes: Vec<PathBuf>,
    /// What decides which packages fit it, beside its path.
    pub(crate) tag: String,
    /// The root of its virtual environment, if it is in one that a manifest asks for.
    pub(crate) environment: Option<PathBuf>,
}

impl Interpreter {
    /// The same in a virtual environment that was made with it.
    pub(crate) fn in_environment(&self, folder: &Path) -> Self {
        let prefixes = self.prefixes.iter().cloned().chain([folder.to_owned()]).collect();
        Self { path: folder.join("bin/python"), prefixes, environment: Some(folder.to_owned()), ..self.clone() }
    }
}

/// Why there is no Python.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PythonError {
    /// It could not be started.
    #[error(
        "'{0}' can't be started ({1}): install Python 3.9 or newer (Debian: apt-get install python3) or set OPENSKILL_PYTHON"
    )]
    NotFound(PathBuf, std::io::ErrorKind),
    /// It printed no version.
    #[error("'{0}' is not Python: it did not print its version")]
    NotPython(PathBuf),
    /// It is too old.
    #[error("'{0}' is Python {1}.{2}; 3.9 or newer is needed")]
    TooOld(PathBuf, u32, u32),
}

/// Finds Python once, at start: through a shim each call would pay for the shim as well.
///
/// # Errors
/// There is none, or none that is new enough.
pub(crate) fn find(wanted: Option<&Path>) -> Result<Interpreter, PythonError> {
    let wanted = wanted.unwrap_or(Path::new("python3"));
    let program = "import os, sys; print(sys.executable); print(*sys.version_info[:2]); \
                   print(sys.implementation.cache_tag, sys.abiflags, os.uname().machine); \
                   print(*{sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}, sep='\\n')";
    let output = StdCommand::new(wanted)
        .args(["-I", "-c", program])
        .output()
        .map_err(|error| PythonError::NotFound(wanted.to_owned(), error.kind()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let (path, version) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let tag = lines.next().unwrap_or_default().to_owned();
    let version = version.split_once(' ').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    match version {
        Some(version) if version >= OLDEST => {
            let prefixes = lines.map(PathBuf::from).collect();
            Ok(Interpreter { path: PathBuf::from(path), version, prefixes, tag, environment: None })
        }
        Some((major, minor)) => Err(PythonError::TooOld(wanted.to_owned(), major, minor)),
        None => Err(PythonError::NotPython(wanted.to_owned())),
    }
}
