//! What `cli:python` needs to know of a skill.

use std::path::PathBuf;

use serde::Deserialize;

/// A Python script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The script: absolute.
    pub script: PathBuf,
    /// What keeps one call from the next.
    pub isolation: Isolation,
}

/// What keeps one call of a script from the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// A process of its own, forked from one that has the script's imports: nothing crosses calls.
    #[default]
    Fork,
    /// A process of its own, and a fresh interpreter in it.
    Process,
    /// Fresh globals in one interpreter that many calls share. For pure code that is trusted.
    Shared,
}
