//! The settings of a `cli:python` skill.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::checks::{ManifestFault, folder_of, is_beneath, refuse};

/// A Python script, and how it is run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The absolute path of the script.
    pub script: PathBuf,
    /// The function in the script that calls run. `None` if they run the script itself.
    pub function: Option<String>,
    /// How calls are isolated from each other.
    pub isolation: Isolation,
    /// The interpreter and packages that the script requires.
    pub needs: Needs,
}

/// How a script's calls are isolated from each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// One process per call, forked from a process that has loaded the script's imports.
    #[default]
    Fork,
    /// One process per call, with a fresh interpreter.
    Process,
    /// Fresh globals per call, in an interpreter that calls share. For trusted, pure code.
    Shared,
}

/// The interpreter and packages that a script requires. The default is the worker's interpreter without packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// The major and minor version.
    pub version: Option<(u32, u32)>,
    /// The packages that the script imports.
    pub packages: Packages,
    /// Whether packages may be built from source, which runs their code on the worker.
    pub source_builds: bool,
    /// Whether each package, including dependencies, needs the SHA-256 hash of its file.
    pub require_hashes: bool,
}

/// The source of a script's packages.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Packages {
    /// The script needs no packages.
    #[default]
    None,
    /// Requirements in the format of `pip install`.
    Listed(Vec<String>),
    /// The absolute path of a requirements file, a `pyproject.toml` or a `uv.lock`.
    File(PathBuf),
    /// The absolute path of a virtual environment that a user created.
    Venv(PathBuf),
}

/// The `python` block as the manifest contains it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct RawPython {
    version: Option<Value>,
    requirements: Option<Value>,
    venv: Option<PathBuf>,
    source_builds: bool,
    require_hashes: bool,
    preload: Vec<String>,
    function: Option<String>,
}

/// The names of a project's lock file and of the project file that it belongs to.
pub(crate) const UV_LOCK: &str = "uv.lock";
pub(crate) const PYPROJECT: &str = "pyproject.toml";

/// The maximum number of requirements in a manifest.
const MAX_LISTED: usize = 256;

/// The maximum number of modules that sessions preload, and the maximum length of a module's name in bytes.
const MAX_PRELOADED: usize = 32;
const MAX_MODULE_BYTES: usize = 128;

impl Needs {
    /// Returns whether the worker's interpreter suffices.
    pub fn is_nothing(&self) -> bool {
        self.version.is_none() && self.packages == Packages::None
    }

    /// Returns whether the worker builds an environment for these packages.
    pub fn is_built(&self) -> bool {
        matches!(self.packages, Packages::Listed(_) | Packages::File(_))
    }

    /// Returns the files that the environment depends on.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        match &self.packages {
            Packages::File(file) if file.ends_with(UV_LOCK) => vec![file.clone(), file.with_file_name(PYPROJECT)],
            Packages::File(file) => vec![file.clone()],
            Packages::Venv(folder) => vec![folder.join("pyvenv.cfg")],
            Packages::None | Packages::Listed(_) => Vec::new(),
        }
    }
}

impl RawPython {
    /// Validates a script's block. Returns the script's requirements, and the function that calls run. `file`: the
    /// manifest's path.
    pub(super) fn resolve_for_script(mut self, file: &Path) -> Result<(Needs, Option<String>), ManifestFault> {
        if !self.preload.is_empty() {
            let reason = "applies only to session:python; the imports at the beginning of a script are preloaded";
            return fault("preload", reason);
        }
        let function = self.function.take();
        if let Some(name) = function.as_ref().filter(|it| it.contains('.') || !is_module(it)) {
            return fault(
                "function",
                &format!("'{name}' is not a valid name of a function: use letters, digits and _"),
            );
        }
        Ok((self.resolve(file)?, function))
    }

    /// Validates an MCP server's block. `file`: the manifest's path.
    pub(super) fn resolve_for_server(self, file: &Path) -> Result<Needs, ManifestFault> {
        if !self.preload.is_empty() {
            return fault("preload", "applies only to session:python; a server imports what it needs");
        }
        let needs = self.resolve(file)?;
        if needs.version.is_some() && needs.packages == Packages::None {
            return fault("version", "python.version of a server needs requirements or venv: give one of them");
        }
        Ok(needs)
    }

    /// Validates the block of a skill with sessions. Returns the sessions' requirements and the modules that they
    /// preload. `file`: the manifest's path.
    pub(super) fn resolve_for_session(mut self, file: &Path) -> Result<(Needs, Vec<String>), ManifestFault> {
        let preload = std::mem::take(&mut self.preload);
        if preload.len() > MAX_PRELOADED {
            return fault("preload", &format!("has more than {MAX_PRELOADED} modules"));
        }
        if let Some(name) = preload.iter().find(|it| !is_module(it)) {
            return fault(
                "preload",
                &format!("'{name}' is not a valid module name such as numpy or matplotlib.pyplot"),
            );
        }
        Ok((self.resolve(file)?, preload))
    }

    fn resolve(self, file: &Path) -> Result<Needs, ManifestFault> {
        if self.function.is_some() {
            return fault("function", "applies only to cli:python");
        }
        let packages = match (self.requirements, self.venv) {
            (Some(_), Some(_)) => return fault("venv", "give requirements or venv, not both"),
            (None, None) => Packages::None,
            (Some(written), None) => requirements(&written, file)?,
            (None, Some(venv)) => match place(&venv, file) {
                Some(venv) => Packages::Venv(venv),
                None => {
                    let reason = "python.venv must be an absolute path, or one below the manifest's folder";
                    return refuse("venv", reason);
                }
            },
        };
        let (source_builds, require_hashes) = (self.source_builds, self.require_hashes);
        for (key, is_set) in [("source_builds", source_builds), ("require_hashes", require_hashes)] {
            if is_set && !matches!(packages, Packages::Listed(_) | Packages::File(_)) {
                return fault(key, "applies only to requirements, but none are set");
            }
        }
        let version = self.version.as_ref().map(version).transpose()?;
        Ok(Needs { version, packages, source_builds, require_hashes })
    }
}

fn is_module(name: &str) -> bool {
    let is_identifier = |part: &str| {
        part.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
            && !part.is_empty()
            && !part.starts_with(|first: char| first.is_ascii_digit())
    };
    name.len() <= MAX_MODULE_BYTES && name.split('.').all(is_identifier)
}

fn requirements(written: &Value, file: &Path) -> Result<Packages, ManifestFault> {
    const WANTED: &str = "must be a list of requirements, such as [pandas==2.2.3], or the path of a requirements file \
                          (.txt), a pyproject.toml or a uv.lock below the manifest's folder";
    let packages = match written {
        Value::Array(items) if (1..=MAX_LISTED).contains(&items.len()) => {
            let lines = items.iter().map(|item| item.as_str().map(str::to_owned));
            lines.collect::<Option<Vec<_>>>().map(Packages::Listed)
        }
        Value::String(path) => {
            let path = Path::new(path);
            let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
            let is_known = name == UV_LOCK || name == PYPROJECT || name.ends_with(".txt");
            place(path, file).filter(|_| is_known && path.is_relative()).map(Packages::File)
        }
        _ => None,
    };
    packages.map_or_else(|| fault("requirements", WANTED), Ok)
}

/// Returns a path that is absolute or below the manifest's folder.
fn place(path: &Path, file: &Path) -> Option<PathBuf> {
    let is_place = path.file_name().is_some() && (path.is_absolute() || is_beneath(path));
    is_place.then(|| folder_of(file).join(path).components().collect())
}

fn version(written: &Value) -> Result<(u32, u32), ManifestFault> {
    let parsed = written.as_str().and_then(|text| {
        let (major, minor) = text.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    match parsed {
        Some(version) if version >= (3, 9) => Ok(version),
        Some(_) => fault("version", "python.version must be 3.9 or newer"),
        // YAML parses 3.10 as the number 3.1.
        None => fault("version", "python.version must be a major and a minor version in quotes, such as \"3.12\""),
    }
}

/// Creates an error at the line of the whole block, because `version` is also a top-level key.
fn fault<T>(key: &str, reason: &str) -> Result<T, ManifestFault> {
    let reason = if reason.starts_with("python.") { reason.to_owned() } else { format!("python.{key}: {reason}") };
    refuse("python", reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(yaml: &str) -> Result<Needs, String> {
        let raw: RawPython = super::super::raw::read(yaml).map_err(|(_, reason)| reason)?;
        raw.resolve_for_script(Path::new("/skills/plot.yaml")).map(|(needs, _)| needs).map_err(|it| it.reason)
    }

    fn preloaded(yaml: &str) -> Result<Vec<String>, String> {
        let raw: RawPython = super::super::raw::read(yaml).map_err(|(_, reason)| reason)?;
        raw.resolve_for_session(Path::new("/skills/run.yaml")).map(|(_, preload)| preload).map_err(|it| it.reason)
    }

    #[test]
    fn sessions_preload_modules_by_name() {
        assert_eq!(preloaded("preload: [numpy, matplotlib.pyplot]").unwrap(), ["numpy", "matplotlib.pyplot"]);
        assert!(preloaded("{}").unwrap().is_empty());
        for name in ["import numpy", "numpy.", "", "1st", "os; x", "a-b"] {
            let reason = preloaded(&format!("preload: ['{name}']")).unwrap_err();
            assert!(reason.contains("not a valid module name"), "{name}: {reason}");
        }
        let many = vec!["numpy"; MAX_PRELOADED + 1].join(", ");
        assert!(preloaded(&format!("preload: [{many}]")).unwrap_err().contains("more than 32"));
    }

    #[test]
    fn packages_come_from_a_list_a_file_or_a_venv() {
        let listed = resolved("requirements: [pandas==2.2.3, requests]\nversion: '3.12'").unwrap();
        assert_eq!(listed.packages, Packages::Listed(vec!["pandas==2.2.3".to_owned(), "requests".to_owned()]));
        assert_eq!(listed.version, Some((3, 12)));
        let file = resolved("requirements: plot/requirements.txt").unwrap();
        assert_eq!(file.files(), [PathBuf::from("/skills/plot/requirements.txt")]);
        let lock = resolved("requirements: ./uv.lock").unwrap();
        assert_eq!(lock.files(), [PathBuf::from("/skills/uv.lock"), PathBuf::from("/skills/pyproject.toml")]);
        let venv = resolved("venv: /opt/plot").unwrap();
        assert_eq!((venv.packages.clone(), venv.is_built()), (Packages::Venv("/opt/plot".into()), false));
        assert_eq!(venv.files(), [PathBuf::from("/opt/plot/pyvenv.cfg")]);
        assert!(resolved("{}").unwrap().is_nothing());
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_a_reason() {
        for (yaml, word) in [
            ("version: 3.10", "in quotes"),
            ("version: '3.8'", "3.9 or newer"),
            ("version: 'latest'", "in quotes"),
            ("requirements: [1]", "list of requirements"),
            ("requirements: []", "list of requirements"),
            ("requirements: ../requirements.txt", "below the manifest's folder"),
            ("requirements: /etc/requirements.txt", "below the manifest's folder"),
            ("requirements: plot.yaml", "requirements file"),
            ("requirements: [a]\nvenv: /opt/plot", "not both"),
            ("venv: ../venv", "absolute path"),
            ("source_builds: true", "none are set"),
            ("require_hashes: true", "none are set"),
            ("wheels: true", "wheels"),
            ("preload: [numpy]", "session:python"),
            ("function: os.system", "not a valid name"),
        ] {
            let reason = resolved(yaml).unwrap_err();
            assert!(reason.contains(word), "{yaml}: {reason}");
        }
    }
}
