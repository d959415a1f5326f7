//! What a skill's process gets: its environment variables, its allowed root, and its jail.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use openskill_sandbox::allowed_root::{below, open_folder, why};
use openskill_sandbox::jail::{Level, Network};
use serde::Deserialize;
use serde_json::Value;

use super::checks::{ManifestFault, refuse};

/// Variables that a manifest can't set, because openskill sets them itself or they affect how programs load.
const RESERVED: [&str; 4] = ["PATH", "LANG", "TRACEPARENT", "LD_PRELOAD"];

/// The maximum number of variables, and the maximum length of a value in bytes.
const MOST: usize = 128;
const MAX_VALUE_BYTES: usize = 4096;

/// The maximum number of readable paths in a manifest.
const MAX_READABLE: usize = 32;

/// What a skill's process may access. Applies only to runners that start processes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jail {
    /// The required isolation level.
    pub level: Level,
    /// The network access that it has.
    pub network: Network,
    /// Additional absolute paths that it may read and run.
    pub readable: Vec<PathBuf>,
}

impl Jail {
    pub(super) fn resolve(
        level: Option<Level>,
        network: Option<&Value>,
        readable: Vec<PathBuf>,
    ) -> Result<Self, ManifestFault> {
        let network = network.map_or(Ok(Network::None), resolve_network)?;
        if readable.len() > MAX_READABLE || readable.iter().any(|path| !path.is_absolute() || path.parent().is_none()) {
            return refuse("readable", format!("must be at most {MAX_READABLE} absolute paths other than '/'"));
        }
        Ok(Self { level: level.unwrap_or_default(), network, readable })
    }
}

/// Parses `none`, `full` or a list of ports.
fn resolve_network(written: &Value) -> Result<Network, ManifestFault> {
    let port = |it: &Value| it.as_u64().and_then(|it| u16::try_from(it).ok()).filter(|it| *it > 0);
    let read = match written {
        Value::String(word) if word == "none" => Some(Network::None),
        Value::String(word) if word == "full" => Some(Network::Full),
        Value::Array(list) if (1..=64).contains(&list.len()) => {
            list.iter().map(port).collect::<Option<Vec<_>>>().map(Network::Connect)
        }
        _ => None,
    };
    read.ok_or_else(|| ManifestFault::new("network", "must be none, full, or a list of 1 to 64 ports such as [443]"))
}

/// Resolves the manifest's `allowed_root`, which is a folder below the worker's allowed root. `written` is absolute
/// or relative to the folder that contains the worker's root, as in `./data/docs`. `worker`: the worker's root,
/// absolute and without links.
///
/// Links above the worker's root are followed, as in a shell. Links below it are not, because skills can create
/// them there.
pub(super) fn resolve_root(written: &str, worker: &Path) -> Result<PathBuf, ManifestFault> {
    let base = worker.parent().unwrap_or(worker);
    let Some(folder) = below(worker, &base.join(written)) else {
        return refuse("allowed_root", format!("'{written}' is outside the worker's allowed root"));
    };
    match open_folder(&folder) {
        Ok(_) => Ok(folder),
        Err(errno) => {
            let reason = why(errno);
            let reason = format!("'{written}' is not a plain folder below the worker's allowed root: {reason}");
            refuse("allowed_root", reason)
        }
    }
}

/// The environment variables of a skill, as the key `env`: `[NAME, NAME=value]`, or `{NAME: value}`. A name without
/// a value is copied from the worker.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Value")]
pub(super) struct Env {
    /// The variables that are copied from the worker.
    pub(super) names: Vec<String>,
    /// The variables that the manifest sets.
    pub(super) values: BTreeMap<String, String>,
}

impl TryFrom<Value> for Env {
    type Error = String;

    fn try_from(written: Value) -> Result<Self, String> {
        let items: Vec<(String, Option<Value>)> = match written {
            Value::Null => Vec::new(),
            Value::Object(fields) => {
                fields.into_iter().map(|(name, value)| (name, Some(value).filter(|it| !it.is_null()))).collect()
            }
            Value::Array(items) => items.into_iter().map(item).collect::<Result<_, _>>()?,
            _ => return Err(WANTED.to_owned()),
        };
        if items.len() > MOST {
            return Err(format!("env: must have at most {MOST} variables"));
        }
        let mut env = Self::default();
        for (name, value) in items {
            check_name(&name)?;
            match value {
                None => env.names.push(name),
                Some(value) => drop(env.values.insert(name.clone(), text(&name, &value)?)),
            }
        }
        Ok(env)
    }
}

const WANTED: &str = "env must be a list of NAME or NAME=value, or an object of names and values";

fn item(item: Value) -> Result<(String, Option<Value>), String> {
    let Value::String(text) = item else { return Err(WANTED.to_owned()) };
    Ok(match text.split_once('=') {
        Some((name, value)) => (name.to_owned(), Some(value.into())),
        None => (text, None),
    })
}

fn check_name(name: &str) -> Result<(), String> {
    let plain = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !plain || RESERVED.contains(&name) || name.starts_with("OPENSKILL_") {
        return Err(format!("env: '{name}' cannot be passed on to a skill"));
    }
    Ok(())
}

fn text(name: &str, value: &Value) -> Result<String, String> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return Err(format!("env: the value of '{name}' must be a string or a number")),
    };
    if text.len() > MAX_VALUE_BYTES || text.contains('\0') {
        return Err(format!(
            "env: the value of '{name}' must be at most {MAX_VALUE_BYTES} bytes and must not contain NUL"
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_variable_is_passed_on_or_set() {
        let listed = Env::try_from(json!(["TOKEN", "OMP_NUM_THREADS=4", "EMPTY=", "QUERY=a=b"])).unwrap();
        assert_eq!(listed.names, ["TOKEN"]);
        assert_eq!(listed.values["OMP_NUM_THREADS"], "4");
        assert_eq!((listed.values["EMPTY"].as_str(), listed.values["QUERY"].as_str()), ("", "a=b"));
        let object = Env::try_from(json!({"TOKEN": null, "OMP_NUM_THREADS": 4, "EMPTY": "", "QUERY": "a=b"})).unwrap();
        assert_eq!(object, listed);
    }

    #[test]
    fn what_would_subvert_a_program_is_refused() {
        for (written, word) in [
            (json!(["PATH=/tmp"]), "PATH"),
            (json!({"LD_PRELOAD": "x"}), "LD_PRELOAD"),
            (json!(["OPENSKILL_CALL_ID=1"]), "OPENSKILL_CALL_ID"),
            (json!(["a b"]), "a b"),
            (json!({"A": []}), "string or a number"),
            (json!([1]), "list of NAME"),
            (json!("A"), "list of NAME"),
            (json!({"A": "x".repeat(5000)}), "4096 bytes"),
        ] {
            let reason = Env::try_from(written.clone()).unwrap_err();
            assert!(reason.contains(word), "{written}: {reason}");
        }
    }

    #[test]
    fn links_are_followed_down_to_the_root_and_no_further() {
        let top = std::env::temp_dir().join(format!("openskill-manifest-root-{}", std::process::id()));
        std::fs::create_dir_all(top.join("data/docs")).unwrap();
        std::fs::create_dir_all(top.join("elsewhere/docs")).unwrap();
        let top = top.canonicalize().unwrap();
        let data = top.join("data");
        for (target, link) in [("data", "alias"), ("alias/docs", "deep"), ("loop", "loop"), ("elsewhere", "other")] {
            symlink(target, top.join(link)).unwrap();
        }
        symlink("docs", data.join("current")).unwrap();
        symlink(top.join("elsewhere"), data.join("out")).unwrap();
        for (written, expected) in [
            ("./data", ""),
            ("data/docs", "docs"),
            ("./alias/docs", "docs"),
            ("deep", "docs"),
            ("data/../data/docs/", "docs"),
            (top.join("alias/docs").to_str().unwrap(), "docs"),
        ] {
            assert_eq!(
                resolve_root(written, &data).ok(),
                Some(data.join(expected).components().collect()),
                "{written}"
            );
        }
        for (written, reason) in [
            ("other/docs", "outside"),
            ("loop", "outside"),
            ("/", "outside"),
            ("..", "outside"),
            ("data/..", "outside"),
            ("data/current", "symbolic link"),
            ("data/out/docs", "symbolic link"),
            ("data/missing", "does not exist"),
            ("data/docs/../../elsewhere", "leads out"),
        ] {
            let fault = resolve_root(written, &data).err().unwrap();
            assert!(fault.reason.contains(reason), "{written}: {}", fault.reason);
        }
        std::fs::remove_dir_all(top).unwrap();
    }
}
