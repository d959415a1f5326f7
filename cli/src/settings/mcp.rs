//! The files for MCP clients: the key that gateway replicas use to seal sessions, and the views.

use openskill_gateway::config::{McpSecret, ViewsConfig};
use openskill_identity::file;

use super::problem::SettingProblems;
use super::raw::RawSettings;

/// The minimum length of the key, in bytes.
const MIN_BYTES: usize = 32;

/// The contents of the configured files.
#[derive(Debug, Default)]
pub(crate) struct McpFiles {
    pub(crate) secret: Option<McpSecret>,
    pub(crate) views: Option<ViewsConfig>,
}

impl McpFiles {
    /// Reads the files that the settings name. Only the commands that serve MCP need them.
    ///
    /// # Errors
    /// A file is unusable.
    pub(crate) fn read(raw: &RawSettings) -> Result<Self, SettingProblems> {
        let secret = raw.read_file("OPENSKILL_MCP_KEY_FILE", |path| {
            file::text(path).map_err(|error| error.to_string()).and_then(|text| key(&text))
        })?;
        Ok(Self { secret, views: raw.read_file("OPENSKILL_MCP_VIEWS_FILE", ViewsConfig::read)? })
    }
}

fn key(text: &str) -> Result<McpSecret, String> {
    let key = text.trim();
    if key.len() < MIN_BYTES {
        return Err(format!("it must contain at least {MIN_BYTES} random bytes: openssl rand -hex 32 makes a key"));
    }
    Ok(McpSecret(key.as_bytes().to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_key_is_refused_and_line_ends_do_not_count() {
        assert!(key(&format!("{}\n\n", "k".repeat(31))).is_err());
        assert_eq!(key(&format!("{}\n", "k".repeat(32))).unwrap().0.len(), 32);
        assert!(!format!("{:?}", key(&"k".repeat(40))).contains("kkk"));
    }
}
