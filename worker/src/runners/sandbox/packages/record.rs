//! The records of the store's entries: wheels, and the sets of wheels that requests resolve to.

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use openskill_proto::trace::hex;
use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::environment::path_text;
use crate::runners::python::environments::store::Store;
use crate::runners::python::interpreter::Interpreter;
use crate::sessions::packages::Package;

/// Increment this when the installation procedure changes, so that workers no longer use older entries.
const FORMAT: u32 = 2;

/// How long a package's newest version, once resolved, counts as the newest.
const FRESH: Duration = Duration::from_secs(3600);

/// The folder inside a wheel's entry that contains its files.
pub(super) const FILES: &str = "files";

/// A wheel in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wheel {
    /// The normalized package name.
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sha256: String,
    /// The modules that it provides.
    pub(super) modules: Vec<String>,
    /// The number of files that can't be imported: programs, headers, data.
    pub(super) left_out: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// A package of a request, and whether it can be imported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ImportOutcome {
    pub(super) sha256: String,
    /// Why the import failed. `None` if it succeeded.
    pub(super) fault: Option<String>,
}

/// The result of resolving a request: the package and its dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Set {
    pub(super) found: Vec<ImportOutcome>,
    /// When it was resolved, in seconds since 1970.
    pub(super) made_s: u64,
}

impl Wheel {
    /// Returns the package to link into sessions.
    pub(super) fn package(&self, store: &Store) -> Package {
        Package {
            name: self.name.clone(),
            version: self.version.clone(),
            sha256: self.sha256.clone(),
            bytes: self.bytes,
            files: store.path().join(&self.sha256).join(FILES),
        }
    }

    /// Returns the modules to import as a trial: only the one that has the package's name, if it exists.
    pub(super) fn trial_modules(&self) -> Vec<&str> {
        let own = self.name.replace('-', "_");
        match self.modules.iter().find(|it| it.eq_ignore_ascii_case(&own)) {
            Some(own) => vec![own],
            None => self.modules.iter().map(String::as_str).collect(),
        }
    }
}

impl Set {
    pub(super) fn new(found: Vec<ImportOutcome>) -> Self {
        Self { found, made_s: now_s() }
    }

    /// Finds the stored resolution for this key, if it is complete, and records its use. Blocks on the disk.
    pub(super) fn find(store: &Store, key: &str, exact: bool) -> Option<Vec<(Wheel, ImportOutcome)>> {
        Store::find(store.path(), key)?;
        let set: Self = serde_json::from_str(&store.record(key)?).ok()?;
        if !exact && now_s().abs_diff(set.made_s) > FRESH.as_secs() {
            return None;
        }
        set.found.into_iter().map(|found| Some((wheel(store, &found.sha256)?, found))).collect()
    }
}

/// Finds a wheel in the store, and records its use. Blocks on the disk.
pub(super) fn wheel(store: &Store, sha256: &str) -> Option<Wheel> {
    Store::find(store.path(), sha256)?;
    serde_json::from_str(&store.record(sha256)?).ok()
}

/// Returns an entry's size: the total size of a wheel's files, and zero for a set. Blocks on the disk.
pub(super) fn bytes(store: &Store, key: &str) -> u64 {
    let wheel = store.record(key).and_then(|it| serde_json::from_str::<Wheel>(&it).ok());
    wheel.map_or(0, |it| it.bytes)
}

/// Derives a request's key. Requests that may resolve to different packages get different keys.
pub(super) fn key(
    name: &str,
    version: Option<&str>,
    [installer, of_sessions]: [&Interpreter; 2],
    source: &str,
    allowed: &str,
) -> String {
    // The packages that sessions already have affect whether an import succeeds.
    let interpreters = [installer, of_sessions].map(|it| [path_text(&it.path), it.tag.clone()]);
    let all = json!([FORMAT, name, version, interpreters, source, allowed]);
    // Shorter than the keys of wheels, so the two can't clash.
    hex(&Sha256::digest(all.to_string().as_bytes())[..16])
}

/// Computes the SHA-256 of a file in hexadecimal. Blocks on the disk.
///
/// # Errors
/// Fails if the file can't be read or is not a regular file.
pub(super) fn digest(file: &Path) -> std::io::Result<String> {
    let mut file =
        openskill_sandbox::plain_file::open(file).map_err(|error| std::io::Error::other(error.to_string()))?;
    let (mut hasher, mut part) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut part)? {
            0 => break,
            count => hasher.update(&part[..count]),
        }
    }
    Ok(hex(&hasher.finalize()))
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |it| it.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wheel(name: &str, modules: &[&str]) -> Wheel {
        let modules = modules.iter().map(|it| (*it).to_owned()).collect();
        let (version, sha256) = ("1".to_owned(), "0".to_owned());
        Wheel { name: name.to_owned(), version, sha256, modules, left_out: 0, files: 1, bytes: 1 }
    }

    #[test]
    fn the_module_of_a_packages_own_name_is_tried_or_else_all() {
        assert_eq!(wheel("my-pack", &["my_pack", "tests"]).trial_modules(), ["my_pack"]);
        assert_eq!(wheel("Pillow", &["PIL"]).trial_modules(), ["PIL"]);
        assert_eq!(wheel("python-dateutil", &["dateutil", "extra"]).trial_modules(), ["dateutil", "extra"]);
    }

    #[test]
    fn whatever_decides_on_the_packages_makes_another_key() {
        let (path, prefixes) = ("/usr/bin/python3".into(), Vec::new());
        let base =
            Interpreter { path, version: (3, 12), prefixes, tag: "312".to_owned(), environment: None, has_sdk: false };
        let newer = Interpreter { tag: "313".to_owned(), ..base.clone() };
        let keys = [
            key("a", None, [&base, &base], "x", "a"),
            key("a", Some("1"), [&base, &base], "x", "a"),
            key("b", None, [&base, &base], "x", "a"),
            key("a", None, [&newer, &base], "x", "a"),
            key("a", None, [&base, &newer], "x", "a"),
            key("a", None, [&base, &base], "y", "a"),
            key("a", None, [&base, &base], "x", "a b"),
        ];
        assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), keys.len());
    }
}
