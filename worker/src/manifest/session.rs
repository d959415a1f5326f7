//! The settings of a `session:python` skill: an operation on the sessions of its toolset.

use super::error::Fault;
use super::python::Needs;

/// A skill that works with sessions: processes that are kept between calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Session {
    /// What it does.
    pub operation: Operation,
    /// The interpreter and the packages of its sessions.
    pub needs: Needs,
    /// Modules that are imported before a session begins.
    pub preload: Vec<String>,
}

/// What a skill does with the sessions of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Runs code in one.
    Execute,
    /// Lists them.
    List,
    /// Closes one.
    Close,
    /// Closes those that were idle for a while.
    Cleanup,
    /// Returns counters.
    Stats,
    /// Returns whether sessions work.
    Health,
    /// Installs a package in one.
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

/// Reads the entry.
pub(super) fn resolve(entry: &str, needs: Needs, preload: Vec<String>) -> Result<Session, Fault> {
    let found = OPERATIONS.iter().find(|(name, _)| *name == entry);
    let Some((_, operation)) = found else {
        let names = OPERATIONS.map(|(name, _)| name).join(", ");
        return Err(("entry", format!("'{entry}' is no operation on sessions: use one of {names}")).into());
    };
    if *operation != Operation::Execute && !preload.is_empty() {
        return Err(("python", "python.preload: is for skills that execute code".to_owned()).into());
    }
    Ok(Session { operation: *operation, needs, preload })
}
