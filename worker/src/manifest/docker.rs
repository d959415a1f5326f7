//! What `docker` needs to know of a skill.

use serde::Deserialize;

use super::Fault;

/// As written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {}

/// A container.
#[derive(Debug, Clone, PartialEq)]
pub struct Docker {
    /// The image.
    pub image: String,
}

/// Checks what was written.
pub(super) fn resolve(_raw: Raw, entry: &str) -> Result<Docker, Fault> {
    Ok(Docker { image: entry.to_owned() })
}
