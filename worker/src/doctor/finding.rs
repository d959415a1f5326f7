//! A finding of `openskill doctor`.

/// How much of a feature is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// All of it is available.
    Ok,
    /// Only a part of it or a substitute is available.
    Part,
    /// It is unavailable.
    No,
}

impl Status {
    /// Returns `ok`, `part` or `no`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Part => "part",
            Self::No => "no",
        }
    }
}

/// The state of one feature, or of one skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The feature in one or two words, or the skill's id.
    pub topic: String,
    /// How much of the feature is available.
    pub status: Status,
    /// What was found, and what it means for skills.
    pub text: String,
}

pub(super) fn finding(topic: &str, status: Status, text: impl Into<String>) -> Finding {
    Finding { topic: topic.to_owned(), status, text: text.into() }
}
