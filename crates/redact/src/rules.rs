//! What is redacted beside, or instead of, the built-in rules.

use crate::custom::Token;

mod parse;

/// Rules of a [`Redactor`](crate::Redactor). The default has the built-in rules, without e-mail addresses and telephone
/// numbers, and a random key for ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    pub(crate) built_in: bool,
    pub(crate) emails: bool,
    pub(crate) phones: bool,
    pub(crate) names: Vec<String>,
    pub(crate) keep: Vec<String>,
    pub(crate) literals: Vec<String>,
    pub(crate) tokens: Vec<Token>,
    pub(crate) id_key: Option<Vec<u8>>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            built_in: true,
            emails: false,
            phones: false,
            names: Vec::new(),
            keep: Vec::new(),
            literals: Vec::new(),
            tokens: Vec::new(),
            id_key: None,
        }
    }
}

/// The shortest exact text and prefix: a shorter one would hide words of everybody.
pub(crate) const SHORTEST_LITERAL: usize = 4;

impl Rules {
    /// Whether e-mail addresses are redacted.
    #[must_use]
    pub fn emails(mut self, is_on: bool) -> Self {
        self.emails = is_on;
        self
    }

    /// Whether telephone numbers are redacted.
    #[must_use]
    pub fn phones(mut self, is_on: bool) -> Self {
        self.phones = is_on;
        self
    }

    /// Hashes ids with this key, unless a rule file has set one. Hashes are the same in all processes with the same key.
    #[must_use]
    pub fn fallback_id_key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.id_key.get_or_insert_with(|| key.into());
        self
    }
}

/// A rule that can't be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleError {
    /// The line of the rule file, from 1; 0 if no line is to blame.
    pub line: usize,
    /// What is wrong, and what to do.
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
