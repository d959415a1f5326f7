//! What `http` needs to know of a skill.

use serde::Deserialize;

use super::Fault;

/// As written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {}

/// A request to a server.
#[derive(Debug, Clone, PartialEq)]
pub struct Http {
    /// The URL, with `{name}` where an argument goes.
    pub url: String,
}

/// Checks what was written.
pub(super) fn resolve(_raw: Raw, entry: &str) -> Result<Http, Fault> {
    Ok(Http { url: entry.to_owned() })
}
