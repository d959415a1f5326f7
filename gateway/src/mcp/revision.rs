//! The protocol revisions of MCP.

/// A protocol revision, named by its date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Revision {
    V2024_11_05,
    V2025_03_26,
    V2025_06_18,
    V2025_11_25,
    /// The first revision without sessions: each request is self-contained.
    V2026_07_28,
}

impl Revision {
    /// All revisions, newest first.
    pub(crate) const ALL: [Self; 5] =
        [Self::V2026_07_28, Self::V2025_11_25, Self::V2025_06_18, Self::V2025_03_26, Self::V2024_11_05];

    /// The revision that `initialize` offers if the client requests an unknown one.
    pub(crate) const NEWEST_WITH_SESSIONS: Self = Self::V2025_11_25;

    /// The revision of a request without header and session, which predates the header.
    pub(crate) const WITHOUT_HEADER: Self = Self::V2025_03_26;

    pub(crate) const fn name(self) -> &'static str {
        ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"][self as usize]
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Whether each request is self-contained: without `initialize` and sessions.
    pub(crate) fn is_stateless(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Whether a body may be a list of messages.
    pub(crate) fn has_batches(self) -> bool {
        self == Self::V2025_03_26
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_revision_has_its_name_and_the_newest_comes_first() {
        assert!(Revision::ALL.iter().all(|it| Revision::from_name(it.name()) == Some(*it)));
        assert!(Revision::ALL.is_sorted_by(|one, other| one > other));
        assert_eq!(Revision::from_name("2026-07-28"), Some(Revision::V2026_07_28));
        assert_eq!(Revision::from_name("2026-07-29"), None);
    }
}
