//! The rules that a user adds to the built-in ones, or uses instead of them.

use crate::shapes::TokenShape;

mod parse;

/// Rules of a [`Redactor`](crate::Redactor). The default has the built-in rules without e-mail addresses and
/// telephone numbers, and a random key for ids.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Whether only the rules of the user apply.
    pub(crate) replaces_built_in: bool,
    pub(crate) emails: bool,
    pub(crate) phones: bool,
    pub(crate) names: Vec<String>,
    pub(crate) keep: Vec<String>,
    pub(crate) literals: Vec<String>,
    pub(crate) tokens: Vec<TokenShape>,
    pub(crate) id_key: Option<Vec<u8>>,
}

/// The minimum length of an exact text or a prefix, in bytes. Shorter ones would hide common words.
pub(crate) const SHORTEST_LITERAL: usize = 4;

impl Rules {
    /// Sets whether e-mail addresses are redacted.
    #[must_use]
    pub fn emails(mut self, is_on: bool) -> Self {
        self.emails = is_on;
        self
    }

    /// Sets whether telephone numbers are redacted.
    #[must_use]
    pub fn phones(mut self, is_on: bool) -> Self {
        self.phones = is_on;
        self
    }

    /// Sets the key of id hashes, unless a rule file has set one. Processes with the same key produce the same
    /// hashes.
    #[must_use]
    pub fn fallback_id_key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.id_key.get_or_insert_with(|| key.into());
        self
    }
}

/// A rule that cannot be compiled, or an error in a rule file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The 1-based line in the rule file. 0 if the error has no line.
    pub line: usize,
    /// What is wrong, and how to fix it.
    pub message: String,
}

impl std::fmt::Display for RuleError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.line {
            0 => write!(f, "{}", self.message),
            line => write!(f, "line {line}: {}", self.message),
        }
    }
}

impl std::error::Error for RuleError {}
