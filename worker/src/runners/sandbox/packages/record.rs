//! The records of the store's entries: of wheels, and of the wheels that a request resolved to.

use std::io::Read as _;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest as _, Sha256};

use crate::environment::path_text;
use crate::runners::python::environments::store::Store;
use crate::runners::python::interpreter::Interpreter;
use crate::sessions::packages::Package;

/// Counts as a change of how packages are installed: older entries are not used any more.
const FORMAT: u32 = 2;

/// How long the newest version of a package is taken to be the newest.
const FRESH: Duration = Duration::from_secs(3600);

/// The folder of an entry that has the files of a wheel.
pub(super) const FILES: &str = "files";

/// A wheel in the store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Wheel {
    /// Normalized.
    pub(super) name: String,
    pub(super) version: String,
    pub(super) sha256: String,
    /// What can be imported of it.
    pub(super) modules: Vec<String>,
    /// How many of its files no import finds: programs, headers, data.
    pub(super) left_out: u64,
    pub(super) files: u64,
    pub(super) bytes: u64,
}

/// A package of a request, and whether it imports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Found {
    pub(super) sha256: String,
    /// Why an import of it fails.
    pub(super) fault: Option<String>,
}

/// What a request resolved to: its package and the dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Set {
    pub(super) found: Vec<Found>,
    /// When it was found out, in seconds since 1970.
    pub(super) made_s: u64,
}

impl Wheel {
    /// It as sessions take it.
    pub(super) fn package(&self, store: &Store) -> Package {
        Package {
            name: self.name.clone(),
            version: self.version.clone(),
            sha256: self.sha256.clone(),
            bytes: self.bytes,
            files: store.path().join(&self.sha256).join(FILES),
        }
    }

    /// What is imported to see whether it works: the module of its own name if there is one.
    pub(super) fn tried(&self) -> Vec<&str> {
        let own = self.name.replace('-', "_");
        match self.modules.iter().find(|it| it.eq_ignore_ascii_case(&own)) {
            Some(own) => vec![own],
            None => self.modules.iter().map(String::as_str).collect(),
        }
    }
}

impl Set {
    pub(super) fn new(found: Vec<Found>) -> Self {
        Self { found, made_s: now_s() }
    }

    /// What the store has for this key, if all of it is there. Notes that it is used. Blocks on the disk.
    pub(super) fn find(store: &Store, key: &str, exact: bool) -> Option<Vec<(Wheel, Found)>> {
        Store::find(store.path(), key)?;
        let set: Self = serde_json::from_str(&store.record(key)?).ok()?;
        if !exact && now_s().abs_diff(set.made_s) > FRESH.as_secs() {
            return None;
        }
        set.found.into_iter().map(|found| Some((wheel(store, &found.sha256)?, found))).collect()
    }
}

/// A wheel that is in the store. Notes that it is used. Blocks on the disk.
pub(super) fn wheel(store: &Store, sha256: &str) -> Option<Wheel> {
    Store::find(store.path(), sha256)?;
    serde_json::from_str(&store.record(sha256)?).ok()
}

/// The bytes of an entry: those of a wheel's files, and none of a set. Blocks on the disk.
pub(super) fn bytes(store: &Store, key: &str) -> u64 {
    let wheel = store.record(key).and_then(|it| serde_json::from_str::<Wheel>(&it).ok());
    wheel.map_or(0, |it| it.bytes)
}

/// The key of a request: requests that may resolve to different packages have different keys.
pub(super) fn key(
    (name, version): (&str, Option<&str>),
    (installer, of_sessions): (&Interpreter, &Interpreter),
    source: &str,
    allowed: &str,
) -> String {
    // What the sessions have decides whether a package imports.
    let interpreters = [installer, of_sessions].map(|it| [path_text(&it.path), it.tag.clone()]);
    let all = json!([FORMAT, name, version, interpreters, source, allowed]);
    // Wheels have longer keys.
    Sha256::digest(all.to_string().as_bytes()).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The SHA-256 of a file in hexadecimal. Blocks on the disk.
///
/// # Errors
/// It can't be read, or is no plain file.
pub(super) fn digest(file: &Path) -> std::io::Result<String> {
    let mut file = crate::plain_file::open(file).map_err(|error| std::io::Error::other(error.to_string()))?;
    let (mut hasher, mut part) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        match file.read(&mut part)? {
            0 => break,
            count => hasher.update(&part[..count]),
        }
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
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
        assert_eq!(wheel("my-pack", &["my_pack", "tests"]).tried(), ["my_pack"]);
        assert_eq!(wheel("Pillow", &["PIL"]).tried(), ["PIL"]);
        assert_eq!(wheel("python-dateutil", &["dateutil", "extra"]).tried(), ["dateutil", "extra"]);
    }

    #[test]
    fn whatever_decides_on_the_packages_makes_another_key() {
        let (path, prefixes) = ("/usr/bin/python3".into(), Vec::new());
        let base = Interpreter { path, version: (3, 12), prefixes, tag: "312".to_owned(), environment: None };
        let newer = Interpreter { tag: "313".to_owned(), ..base.clone() };
        let keys = [
            key(("a", None), (&base, &base), "x", "a"),
            key(("a", Some("1")), (&base, &base), "x", "a"),
            key(("b", None), (&base, &base), "x", "a"),
            key(("a", None), (&newer, &base), "x", "a"),
            key(("a", None), (&base, &newer), "x", "a"),
            key(("a", None), (&base, &base), "y", "a"),
            key(("a", None), (&base, &base), "x", "a b"),
        ];
        assert_eq!(keys.iter().collect::<std::collections::HashSet<_>>().len(), keys.len());
    }
}
