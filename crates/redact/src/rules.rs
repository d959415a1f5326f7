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
    /// Whether the built-in rules apply.
    #[must_use]
    pub fn built_in(mut self, is_on: bool) -> Self {
        self.built_in = is_on;
        self
    }

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

    /// Adds the name of a secret: of a field, a header, a variable. Case and separators don't matter.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// Adds a name whose value is never redacted for its name.
    #[must_use]
    pub fn keep(mut self, name: impl Into<String>) -> Self {
        self.keep.push(name.into());
        self
    }

    /// Adds a text that is a secret, such as a key that this process uses. One of fewer than four bytes is ignored.
    #[must_use]
    pub fn literal(mut self, secret: impl Into<String>) -> Self {
        let secret = secret.into();
        if secret.len() >= SHORTEST_LITERAL {
            self.literals.push(secret);
        }
        self
    }

    /// Hashes ids with this key, so that hashes are the same in all processes that have it.
    #[must_use]
    pub fn id_key(mut self, key: impl Into<Vec<u8>>) -> Self {
        self.id_key = Some(key.into());
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
