//! The methods of HTTP requests.

use serde::Deserialize;

/// The methods a skill may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads; has no body.
    Get,
    /// Reads, and gives no data; has no body.
    Head,
    /// Does something.
    #[default]
    Post,
    /// Puts something in its place.
    Put,
    /// Changes something.
    Patch,
    /// Deletes something; has a body only if the manifest says so.
    Delete,
}
