//! Explains to a model why a text can't be read.

use std::fmt;

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

/// Why the lenient parser can't read a text, and where it stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::arguments) struct LenientError {
    /// The position in characters, starting at 1.
    character: usize,
    reason: String,
}

impl LenientError {
    /// Creates an error at byte `at` of `text`.
    pub(super) fn at(text: &str, at: usize, reason: impl Into<String>) -> Self {
        Self { character: text[..text.floor_char_boundary(at)].chars().count() + 1, reason: reason.into() }
    }
}

impl fmt::Display for LenientError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "invalid JSON at character {}: {}", self.character, self.reason)
    }
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
