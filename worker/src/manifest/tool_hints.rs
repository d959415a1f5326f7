//! Tells agents what they must know before they call a skill for a user.

use serde::Deserialize;

/// Hints for agents that use a skill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolHints {
    /// Whether each call needs the user's approval. `None` requires it only for a destructive skill.
    pub approval: Option<Approval>,
    /// Whether an identical call right after the first one is intended.
    pub repeatable: bool,
    /// Whether results contain text from untrusted sources.
    pub untrusted: bool,
    /// Whether the skill changes nothing and sends none of its arguments to others.
    pub read_only: bool,
}

/// Whether calls need the user's approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Approval {
    /// No call needs approval.
    Never,
    /// Each call needs approval.
    Ask,
}

/// The hints as the manifest contains them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RawToolHints {
    pub(super) approval: Option<Approval>,
    pub(super) repeatable: bool,
    pub(super) untrusted: Option<bool>,
    pub(super) read_only: bool,
}

impl ToolHints {
    /// Returns whether each call needs the user's approval.
    pub(crate) fn asks(self, destructive: bool) -> bool {
        self.approval.map_or(destructive, |it| it == Approval::Ask)
    }
}

/// Validates a manifest's hints. Answers of HTTP and MCP servers count as untrusted text, unless the manifest says
/// otherwise.
pub(super) fn resolve(raw: RawToolHints, runner: &str, destructive: bool) -> Result<ToolHints, (&'static str, String)> {
    if raw.read_only && destructive {
        return Err(("read_only", "a skill cannot be both read_only and destructive: remove one of them".to_owned()));
    }
    let is_remote = runner == "http" || runner == "mcp" || runner.starts_with("mcp:");
    Ok(ToolHints {
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
        let tool_hints =
            |runner, destructive| resolve(RawToolHints::default(), runner, destructive).unwrap_or_default();
        assert!(tool_hints("cli:python", true).asks(true) && !tool_hints("cli:python", false).asks(false));
        assert!(tool_hints("http", false).untrusted && tool_hints("mcp:stdio", false).untrusted);
        assert!(!tool_hints("cli:exec", false).untrusted);
    }

    #[test]
    fn what_is_said_counts_and_must_make_sense() {
        let raw = RawToolHints { approval: Some(Approval::Never), untrusted: Some(false), ..RawToolHints::default() };
        let tool_hints = resolve(raw, "http", true).unwrap_or_default();
        assert!(!tool_hints.asks(true) && !tool_hints.untrusted);
        assert!(resolve(RawToolHints { read_only: true, ..RawToolHints::default() }, "http", true).is_err());
    }
}
