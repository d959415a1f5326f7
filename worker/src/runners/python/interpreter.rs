//! Finds the Python that runs scripts, and queries its version, once per worker.

use std::path::{Path, PathBuf};
use std::process::Command as StdCommand;

use crate::sdk;

/// The oldest Python that the SDK and the shipped skills support.
const OLDEST: (u32, u32) = (3, 9);

/// A usable Python interpreter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Interpreter {
    /// The interpreter itself, behind any shims and wrappers.
    pub(crate) path: PathBuf,
    /// The major and minor version.
    pub(crate) version: (u32, u32),
    /// The folders of its libraries, which must be readable for it.
    pub(crate) prefixes: Vec<PathBuf>,
    /// Together with the path, determines which packages are compatible.
    pub(crate) tag: String,
    /// The root of its virtual environment, if it runs in one.
    pub(crate) environment: Option<PathBuf>,
    /// Whether the SDK is among its packages, in a version that can call functions.
    pub(crate) has_sdk: bool,
}

impl Interpreter {
    /// Returns the interpreter of a virtual environment that this interpreter created.
    pub(crate) fn in_environment(&self, folder: &Path) -> Self {
        let prefixes = self.prefixes.iter().cloned().chain([folder.to_owned()]).collect();
        let (path, has_sdk) = (folder.join("bin/python"), has_sdk(folder, self.version));
        Self { path, prefixes, environment: Some(folder.to_owned()), has_sdk, ..self.clone() }
    }
}

/// The reason why no Python is usable.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PythonError {
    /// It can't be started.
    #[error(
        "'{0}' can't be started ({1}): install Python 3.9 or newer (Debian: apt-get install python3) or set OPENSKILL_PYTHON"
    )]
    NotFound(PathBuf, std::io::ErrorKind),
    /// It printed no version.
    #[error("'{0}' is not Python: it did not print its version")]
    NotPython(PathBuf),
    /// Its version is too old.
    #[error("'{0}' is Python {1}.{2}; 3.9 or newer is needed")]
    TooOld(PathBuf, u32, u32),
}

/// Finds Python once, when the worker starts. Resolves shims, which would slow down each call.
///
/// # Errors
/// Fails if there is no Python or it is too old.
pub(crate) fn find(wanted: Option<&Path>) -> Result<Interpreter, PythonError> {
    let wanted = wanted.unwrap_or(Path::new("python3"));
    let program = "import importlib.util, os, sys; print(sys.executable); print(*sys.version_info[:2]); \
                   print(sys.implementation.cache_tag, sys.abiflags, os.uname().machine); \
                   sdk = importlib.util.find_spec('openskill_sdk'); \
                   print(any(os.path.isfile(os.path.join(folder, 'functions.py')) \
                   for folder in sdk.submodule_search_locations or ()) if sdk else False); \
                   print(*{sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}, sep='\\n')";
    let output = StdCommand::new(wanted)
        .args(["-I", "-c", program])
        .output()
        .map_err(|error| PythonError::NotFound(wanted.to_owned(), error.kind()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines = text.lines();
    let (path, version) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let tag = lines.next().unwrap_or_default().to_owned();
    let has_sdk = lines.next() == Some("True");
    match version_of(version) {
        Some(version) if version >= OLDEST => {
            let prefixes = lines.map(PathBuf::from).collect();
            Ok(Interpreter { path: PathBuf::from(path), version, prefixes, tag, environment: None, has_sdk })
        }
        Some((major, minor)) => Err(PythonError::TooOld(wanted.to_owned(), major, minor)),
        None => Err(PythonError::NotPython(wanted.to_owned())),
    }
}

/// Returns whether the SDK is among the packages of a virtual environment.
pub(super) fn has_sdk(environment: &Path, (major, minor): (u32, u32)) -> bool {
    sdk::is_installed(&environment.join(format!("lib/python{major}.{minor}/site-packages")))
}

/// Parses the major and minor version at the beginning of a text.
pub(super) fn version_of(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split(['.', ' ']).map_while(|it| it.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}
