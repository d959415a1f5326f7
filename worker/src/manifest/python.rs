//! The settings of a `cli:python` skill.

use std::path::PathBuf;

use serde::Deserialize;

/// A Python script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Python {
    /// The script: absolute.
    pub script: PathBuf,
    /// What isolates one call from the next.
    pub isolation: Isolation,
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
