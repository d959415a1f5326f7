//! The settings of a `session:python` skill: an operation on the sessions of its toolset.

use super::checks::{ManifestFault, refuse};
use super::python::Needs;

/// A skill that operates on sessions, which are processes that are kept between calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// What the skill does with sessions.
    pub operation: Operation,
    /// The interpreter and packages that the sessions require.
    pub needs: Needs,
    /// The modules that are imported before a session starts.
    pub preload: Vec<String>,
}

/// What a skill does with its caller's sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Runs code in a session.
    Execute,
    /// Lists the caller's sessions.
    List,
    /// Closes a session.
    Close,
    /// Closes sessions that were idle for a while.
    Cleanup,
    /// Returns counters of the caller's calls.
    Stats,
    /// Reports whether sessions work.
    Health,
    /// Installs a package in a session.
    Install,
}

const OPERATIONS: [(&str, Operation); 7] = [
    ("execute", Operation::Execute),
    ("list", Operation::List),
    ("close", Operation::Close),
    ("cleanup", Operation::Cleanup),
    ("stats", Operation::Stats),
    ("health", Operation::Health),
    ("install", Operation::Install),
];

/// Parses the manifest's `entry`.
pub(super) fn resolve(entry: &str, needs: Needs, preload: Vec<String>) -> Result<Session, ManifestFault> {
    let found = OPERATIONS.iter().find(|(name, _)| *name == entry);
    let Some((_, operation)) = found else {
        let names = OPERATIONS.map(|(name, _)| name).join(", ");
        return refuse("entry", format!("'{entry}' is not an operation on sessions: use one of {names}"));
    };
    if *operation != Operation::Execute && !preload.is_empty() {
        return refuse("python", "python.preload: applies only to skills that execute code");
    }
    Ok(Session { operation: *operation, needs, preload })
}
