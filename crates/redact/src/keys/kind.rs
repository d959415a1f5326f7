//! What the value of a name is.

/// What the value of a name is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// A secret, whatever it looks like.
    Secret,
    /// A password: a secret that people choose. It may consist of words.
    Password,
    /// A secret with a scheme before it, up to the end of the line.
    Authorization,
    /// Pairs of a name and a secret, up to the end of the line.
    Cookie,
    /// A secret if it looks random.
    Weak,
    /// A secret if it consists of a few digits.
    Code,
    /// A secret in a query string.
    Query,
    /// An id of a session.
    Session,
    /// An id of a tool call.
    ToolCall,
    /// The name of something whose value stands beside it.
    Name,
    /// The value of something whose name stands beside it.
    Value,
}

impl Kind {
    /// Whether the value is a secret, whatever it looks like.
    pub(crate) fn is_certain(self) -> bool {
        matches!(self, Self::Secret | Self::Password | Self::Authorization | Self::Cookie)
    }

    /// The kind of an id.
    pub(crate) fn id(self) -> Option<&'static str> {
        match self {
            Self::Session => Some("session"),
            Self::ToolCall => Some("tool_call"),
            _ => None,
        }
    }
}
