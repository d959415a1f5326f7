//! What `mcp:stdio` and `mcp:http` need to know of a server.

use serde::Deserialize;

use super::Fault;

/// As written.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Raw {}

/// A server.
#[derive(Debug, Clone, PartialEq)]
pub struct Mcp {
    /// The program of `mcp:stdio`, or the URL of `mcp:http`.
    pub target: String,
}

/// One tool of a server.
#[derive(Debug, Clone, PartialEq)]
pub struct McpTool {
    /// The id of the server's manifest.
    pub server: String,
    /// The tool's name, as the server has it.
    pub tool: String,
}

/// Checks what was written.
pub(super) fn resolve(_raw: Raw, entry: &str, _runtime: &str) -> Result<Mcp, Fault> {
    Ok(Mcp { target: entry.to_owned() })
}
