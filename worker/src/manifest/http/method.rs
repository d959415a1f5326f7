//! HTTP methods.

use serde::Deserialize;

/// The HTTP methods that a skill may use.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    /// Reads. Has no body.
    Get,
    /// Reads only headers. Has no body.
    Head,
    /// Performs an action.
    #[default]
    Post,
    /// Replaces a resource.
    Put,
    /// Changes a resource.
    Patch,
    /// Deletes a resource. Has a body only if the manifest declares one.
    Delete,
}
