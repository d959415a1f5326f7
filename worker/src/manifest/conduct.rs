//! What an agent must know of a skill before it calls it on somebody's behalf.

use serde::Deserialize;

/// How an agent has to treat a skill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Conduct {
    /// Whether each call needs the user's approval. None: if the skill is destructive.
    pub approval: Option<Approval>,
    /// An identical call right after the first one is meant.
    pub repeatable: bool,
    /// Results hold text of strangers.
    pub untrusted: bool,
    /// It changes nothing, and sends nothing of its arguments to others.
    pub read_only: bool,
}

/// Whether calls need a user's approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// No.
    Never,
    /// Yes, each call.
    Ask,
}

/// The fields of a manifest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Raw {
    pub(super) approval: Option<Approval>,
    pub(super) repeatable: bool,
    pub(super) untrusted: Option<bool>,
    pub(super) read_only: bool,
}

impl Conduct {
    /// Whether each call needs the user's approval.
    pub(crate) fn asks(self, destructive: bool) -> bool {
        self.approval.map_or(destructive, |it| it == Approval::Ask)
    }
}

/// The conduct that a manifest asks for. What an HTTP server or an MCP server answers is text of strangers unless the manifest
/// says otherwise.
pub(super) fn resolve(raw: Raw, runner: &str, destructive: bool) -> Result<Conduct, (&'static str, String)> {
    if raw.read_only && destructive {
        return Err(("read_only", "a skill cannot be both read_only and destructive: remove one of them".to_owned()));
    }
    let is_remote = runner == "http" || runner == "mcp" || runner.starts_with("mcp:");
    Ok(Conduct {
        approval: raw.approval,
        repeatable: raw.repeatable,
        untrusted: raw.untrusted.unwrap_or(is_remote),
        read_only: raw.read_only,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_follows_from_the_skill() {
        let conduct = |runner, destructive| resolve(Raw::default(), runner, destructive).unwrap_or_default();
        assert!(conduct("cli:python", true).asks(true) && !conduct("cli:python", false).asks(false));
        assert!(conduct("http", false).untrusted && conduct("mcp:stdio", false).untrusted);
        assert!(!conduct("cli:exec", false).untrusted);
    }

    #[test]
    fn what_is_said_counts_and_must_make_sense() {
        let raw = Raw { approval: Some(Approval::Never), untrusted: Some(false), ..Raw::default() };
        let conduct = resolve(raw, "http", true).unwrap_or_default();
        assert!(!conduct.asks(true) && !conduct.untrusted);
        assert!(resolve(Raw { read_only: true, ..Raw::default() }, "http", true).is_err());
    }
}
