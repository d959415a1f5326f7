//! Reads the files of a project: `openskill.toml` and `.env`.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::path::Path;

use openskill_net::file_watcher::read_file;
use serde_json::Value;

use super::names::{ALL, is_known};
use super::problem::SettingProblem;
use super::project::{FILE_NAME, VARIABLE};
use super::unknown::{is_foreign, nearest};

/// The file with variables, in the directory of the project.
pub(super) const DOT_ENV: &str = ".env";

/// The maximum size of a file, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// The values in a file, and the problems with it.
#[derive(Default)]
pub(super) struct FileContent {
    /// By the name of the variable.
    pub(super) values: HashMap<String, String>,
    pub(super) problems: Vec<SettingProblem>,
}

impl FileContent {
    fn unreadable(file: &str, reason: impl Into<String>) -> Self {
        Self { values: HashMap::new(), problems: vec![SettingProblem::new(file, "file", reason)] }
    }
}

/// Reads `.env`. The file may contain variables of other programs, such as Compose. Reports unknown variables that begin with
/// `OPENSKILL_`, which are probably misspelled.
pub(super) fn read_dot_env(path: &Path) -> FileContent {
    let mut found = FileContent::default();
    let text = match read_file(path, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return found,
        Err(error) => return FileContent::unreadable(DOT_ENV, error.to_string()),
    };
    // The file is found before it is read.
    let is_other = |name: &str| is_foreign(name) && name != VARIABLE;
    for line in dotenvy::from_read_iter(&text[..]) {
        match line {
            Ok((name, _)) if name.starts_with("OPENSKILL_") && !is_known(&name) && !is_other(&name) => {
                found.problems.push(unknown(&name, nearest(&name).map(|it| it.name), DOT_ENV));
            }
            Ok((name, value)) => drop(found.values.insert(name, value)),
            // The error quotes the line, which may contain a secret.
            Err(error) => {
                let reason = match &error {
                    dotenvy::Error::LineParse(rest, _) => match name_before(&text, rest) {
                        Some(name) => format!("the value of {name} is not valid: quote it"),
                        None => "a line is not NAME=value".to_owned(),
                    },
                    other => other.to_string(),
                };
                found.problems.push(SettingProblem::new(DOT_ENV, "file", reason));
            }
        }
    }
    found
}

/// Returns the variable of the line that ends with `rest`, the part that can't be read.
fn name_before(text: &[u8], rest: &str) -> Option<String> {
    let text = String::from_utf8_lossy(text);
    let line = text.lines().find(|line| line.trim_end().ends_with(rest.trim_end()))?;
    let name = line.split_once('=')?.0.trim().trim_start_matches("export ");
    is_name(name).then(|| name.to_owned())
}

/// Whether a text is the name of a variable, and not a part of a key that was pasted into the file.
fn is_name(text: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_uppercase() || it.is_ascii_digit() || it == b'_';
    (1..=64).contains(&text.len()) && text.bytes().all(is_plain)
}

/// Reads `openskill.toml`.
pub(super) fn read_toml(path: &Path) -> FileContent {
    let mut found = FileContent::default();
    let text = match read_file(path, MAX_BYTES).map(String::from_utf8) {
        Ok(Ok(text)) => text,
        Ok(Err(error)) => return FileContent::unreadable(FILE_NAME, error.to_string()),
        Err(error) => return FileContent::unreadable(FILE_NAME, error.to_string()),
    };
    let table: serde_json::Map<String, Value> = match toml_edit::de::from_str(&text) {
        Ok(table) => table,
        Err(error) => return FileContent::unreadable(FILE_NAME, error.to_string()),
    };
    for (key, value) in table {
        match ALL.iter().find(|setting| setting.key == key) {
            Some(setting) => drop(found.values.insert(setting.name.to_owned(), as_text(&value))),
            None => found.problems.push(unknown(&key, nearest(&key).map(|it| it.key), FILE_NAME)),
        }
    }
    found
}

fn as_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(as_text).collect::<Vec<_>>().join(","),
        Value::Object(_) => "a table".to_owned(),
        // 16.0 becomes 16, since numeric settings are whole numbers.
        Value::Number(number) => {
            let text = number.to_string();
            text.strip_suffix(".0").unwrap_or(&text).to_owned()
        }
        // Resolving accepts false and true as well as 0 and 1.
        Value::Bool(_) | Value::Null => value.to_string(),
    }
}

fn unknown(name: &str, near: Option<&str>, file: &str) -> SettingProblem {
    let near = near.map_or_else(String::new, |near| format!("did you mean {near}? "));
    let reason = format!("unknown setting: {near}`openskill config --reference` lists all settings");
    SettingProblem::new(name, file, reason)
}
