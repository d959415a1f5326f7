//! The settings of a `cli:python` skill.

use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::error::Fault;

/// A Python script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The script: absolute.
    pub script: PathBuf,
    /// What isolates one call from the next.
    pub isolation: Isolation,
    /// The interpreter and the packages that it needs.
    pub needs: Needs,
}

/// What isolates one call of a script from the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A process per call, forked from one that has loaded the script's imports.
    #[default]
    Fork,
    /// A process per call with a fresh interpreter.
    Process,
    /// Fresh globals in an interpreter that many calls share. For trusted, pure code.
    Shared,
}

/// What a script needs of its interpreter. By default it runs with the worker's own.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// Major and minor version.
    pub version: Option<(u32, u32)>,
    /// Its packages.
    pub packages: Packages,
    /// Whether its packages may be built from source, which runs their code on the worker.
    pub source_builds: bool,
    /// Whether every package must have the SHA-256 of its file, those that others need as well.
    pub require_hashes: bool,
}

/// Where the packages of a script come from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Packages {
    /// It has none of its own.
    #[default]
    None,
    /// Requirements, as `pip install` takes them.
    Listed(Vec<String>),
    /// A requirements file, a `pyproject.toml` or a `uv.lock`: absolute.
    File(PathBuf),
    /// A virtual environment that somebody else made: absolute.
    Venv(PathBuf),
}

/// The block `python` as written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    version: Option<Value>,
    requirements: Option<Value>,
    venv: Option<PathBuf>,
    #[serde(default)]
    source_builds: bool,
    #[serde(default)]
    require_hashes: bool,
    #[serde(default)]
    preload: Vec<String>,
}

/// The name of a project's lock file, and of the file it belongs to.
pub(crate) const UV_LOCK: &str = "uv.lock";
pub(crate) const PYPROJECT: &str = "pyproject.toml";

/// How many requirements a manifest may list.
const MAX_LISTED: usize = 256;

/// How many modules sessions may preload, and the bytes of a module's name.
const MAX_PRELOADED: usize = 32;
const MAX_MODULE_BYTES: usize = 128;

impl Needs {
    /// Whether the worker's own interpreter will do, as it is.
    pub fn is_nothing(&self) -> bool {
        self.version.is_none() && self.packages == Packages::None
    }

    /// Whether the worker builds an environment for it.
    pub fn is_built(&self) -> bool {
        matches!(self.packages, Packages::Listed(_) | Packages::File(_))
    }

    /// The files that it depends on.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        match &self.packages {
            Packages::File(file) if file.ends_with(UV_LOCK) => vec![file.clone(), file.with_file_name(PYPROJECT)],
            Packages::File(file) => vec![file.clone()],
            Packages::Venv(folder) => vec![folder.join("pyvenv.cfg")],
            Packages::None | Packages::Listed(_) => Vec::new(),
        }
    }
}

/// Checks the block of a script. `file` is the manifest.
pub(super) fn of_script(raw: Raw, file: &Path) -> Result<Needs, Fault> {
    if !raw.preload.is_empty() {
        return fault("preload", "is for session:python; the imports at the beginning of a script are preloaded");
    }
    resolve(raw, file)
}

/// Checks the block of an MCP server. `file` is the manifest.
pub(super) fn of_server(raw: Raw, file: &Path) -> Result<Needs, Fault> {
    if !raw.preload.is_empty() {
        return fault("preload", "is for session:python; a server imports what it needs");
    }
    let needs = resolve(raw, file)?;
    if needs.version.is_some() && needs.packages == Packages::None {
        return fault("version", "python.version of a server goes with requirements or venv: give one of them");
    }
    Ok(needs)
}

/// Checks the block of a skill with sessions: what they need, and the modules that they preload. `file` is the manifest.
pub(super) fn of_session(mut raw: Raw, file: &Path) -> Result<(Needs, Vec<String>), Fault> {
    let preload = std::mem::take(&mut raw.preload);
    if preload.len() > MAX_PRELOADED {
        return fault("preload", &format!("has more than {MAX_PRELOADED} modules"));
    }
    if let Some(name) = preload.iter().find(|it| !is_module(it)) {
        return fault("preload", &format!("'{name}' is not the name of a module, such as numpy or matplotlib.pyplot"));
    }
    Ok((resolve(raw, file)?, preload))
}

fn is_module(name: &str) -> bool {
    let is_identifier = |part: &str| {
        part.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
            && !part.is_empty()
            && !part.starts_with(|first: char| first.is_ascii_digit())
    };
    name.len() <= MAX_MODULE_BYTES && name.split('.').all(is_identifier)
}

fn resolve(raw: Raw, file: &Path) -> Result<Needs, Fault> {
    let packages = match (raw.requirements, raw.venv) {
        (Some(_), Some(_)) => return fault("venv", "give requirements or venv, not both"),
        (None, None) => Packages::None,
        (Some(written), None) => requirements(written, file)?,
        (None, Some(venv)) => Packages::Venv(place(&venv, file).ok_or_else(|| {
            Fault::from(("venv", "python.venv must be an absolute path, or one below the manifest's folder".to_owned()))
        })?),
    };
    if raw.source_builds && !matches!(packages, Packages::Listed(_) | Packages::File(_)) {
        return fault("source_builds", "is for requirements, and there are none");
    }
    if raw.require_hashes && !matches!(packages, Packages::Listed(_) | Packages::File(_)) {
        return fault("require_hashes", "is for requirements, and there are none");
    }
    let version = raw.version.as_ref().map(version).transpose()?;
    Ok(Needs { version, packages, source_builds: raw.source_builds, require_hashes: raw.require_hashes })
}

fn requirements(written: Value, file: &Path) -> Result<Packages, Fault> {
    const WANTED: &str = "must be a list of requirements, such as [pandas==2.2.3], or the path of a requirements file \
                          (.txt), a pyproject.toml or a uv.lock below the manifest's folder";
    match written {
        Value::Array(items) if items.len() <= MAX_LISTED => {
            let text = |item| match item {
                Value::String(text) => Some(text),
                _ => None,
            };
            let lines = items.into_iter().map(text).collect::<Option<Vec<_>>>();
            lines
                .filter(|it| !it.is_empty())
                .map_or_else(|| fault("requirements", WANTED), |it| Ok(Packages::Listed(it)))
        }
        Value::String(path) => {
            let path = Path::new(&path);
            let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
            let known = name == UV_LOCK || name == PYPROJECT || name.ends_with(".txt");
            match place(path, file) {
                Some(place) if known && path.is_relative() => Ok(Packages::File(place)),
                _ => fault("requirements", WANTED),
            }
        }
        _ => fault("requirements", WANTED),
    }
}

/// A path that is absolute, or below the manifest's folder.
fn place(path: &Path, file: &Path) -> Option<PathBuf> {
    let below = path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    let is_place = path.file_name().is_some() && (path.is_absolute() || below);
    is_place.then(|| file.parent().unwrap_or(Path::new(".")).join(path).components().collect())
}

fn version(written: &Value) -> Result<(u32, u32), Fault> {
    let parsed = written.as_str().and_then(|text| {
        let (major, minor) = text.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    });
    match parsed {
        Some(version) if version >= (3, 9) => Ok(version),
        Some(_) => fault("version", "python.version must be 3.9 or newer"),
        // YAML reads 3.10 as the number 3.1.
        None => fault("version", "python.version must be a major and a minor version in quotes, such as \"3.12\""),
    }
}

/// The line that an error names is that of the whole block: `version` is a key of the manifest, too.
fn fault<T>(key: &str, reason: &str) -> Result<T, Fault> {
    let reason = if reason.starts_with("python.") { reason.to_owned() } else { format!("python.{key}: {reason}") };
    Err(("python", reason).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(yaml: &str) -> Result<Needs, String> {
        let raw: Raw = super::super::raw::read(yaml).map_err(|(_, reason)| reason)?;
        of_script(raw, Path::new("/skills/plot.yaml")).map_err(|it| it.reason)
    }

    fn preloaded(yaml: &str) -> Result<Vec<String>, String> {
        let raw: Raw = super::super::raw::read(yaml).map_err(|(_, reason)| reason)?;
        of_session(raw, Path::new("/skills/run.yaml")).map(|(_, preload)| preload).map_err(|it| it.reason)
    }

    #[test]
    fn sessions_preload_modules_by_name() {
        assert_eq!(preloaded("preload: [numpy, matplotlib.pyplot]").unwrap(), ["numpy", "matplotlib.pyplot"]);
        assert!(preloaded("{}").unwrap().is_empty());
        for name in ["import numpy", "numpy.", "", "1st", "os; x", "a-b"] {
            let reason = preloaded(&format!("preload: ['{name}']")).unwrap_err();
            assert!(reason.contains("not the name of a module"), "{name}: {reason}");
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
            ("source_builds: true", "there are none"),
            ("require_hashes: true", "there are none"),
            ("wheels: true", "wheels"),
            ("preload: [numpy]", "session:python"),
        ] {
            let reason = resolved(yaml).unwrap_err();
            assert!(reason.contains(word), "{yaml}: {reason}");
        }
    }
}
