//! One thing that was looked at, and what was found.

/// How much of something there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// All of it.
    Ok,
    /// Some of it, or another way to nearly the same.
    Part,
    /// None.
    No,
}

impl Status {
    /// `ok`, `part` or `no`.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Part => "part",
            Self::No => "no",
        }
    }
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What it is, in a word or two; for a skill its id.
    pub topic: String,
    /// How much of it there is.
    pub status: Status,
    /// What was found, and what follows from it.
    pub text: String,
}

/// A finding.
pub(super) fn finding(topic: &str, status: Status, text: impl Into<String>) -> Finding {
    Finding { topic: topic.to_owned(), status, text: text.into() }
}
