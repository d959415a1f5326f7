//! The environment variables of a skill: copied from the worker, or set by the manifest.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// Variables that a manifest can't set, because openskill sets them itself or they affect how programs load.
const RESERVED: [&str; 4] = ["PATH", "LANG", "TRACEPARENT", "LD_PRELOAD"];

/// The maximum number of variables, and the maximum length of a value in bytes.
const MOST: usize = 128;
const MAX_VALUE_BYTES: usize = 4096;

/// The key `env`: `[NAME, NAME=value]`, or `{NAME: value}`. A name without a value is copied from the worker.
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
}
