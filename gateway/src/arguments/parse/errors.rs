//! Explains to a model why a text can't be read.

use openskill_proto::limits::{MAX_JSON_DEPTH, MAX_JSON_VALUES};
use serde_json::Value;

/// Why a text is not strict JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::arguments) enum StrictError {
    /// The syntax is wrong, but the lenient parser may be able to read it.
    Syntax(String),
    /// The text is nested too deeply, has too many values, or repeats a key. No parser accepts it.
    Fatal(String),
}

/// Explains why the lenient parser stopped at byte `at` of `text`.
pub(super) fn stopped_at(text: &str, at: usize, reason: &str) -> String {
    // People count characters, starting at 1.
    let character = text[..text.floor_char_boundary(at)].chars().count() + 1;
    format!("invalid JSON at character {character}: {reason}")
}

pub(in crate::arguments) fn too_deep() -> String {
    format!("the arguments are nested deeper than {MAX_JSON_DEPTH} levels")
}

pub(crate) fn too_many_values() -> String {
    format!("the arguments have more than {MAX_JSON_VALUES} values: send fewer, or large data as text in one string")
}

pub(super) fn duplicate_key(key: &str) -> String {
    let shown: String = key.chars().take(60).collect();
    format!("duplicate key {}: keep only one", Value::from(shown))
}
