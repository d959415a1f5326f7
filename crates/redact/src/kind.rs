//! The kinds of values that a name announces, and the meanings of the words of a name.

/// The kind of value that a name announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ValueKind {
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
    /// A one-time code: a secret if it consists of a few digits.
    Code,
    /// A secret if it is in a query string.
    Query,
    /// An id of a session.
    Session,
    /// An id of a tool call.
    ToolCall,
    /// The name of a secret whose value is next to it, as in `{"name": "TOKEN", "value": "x"}`.
    Name,
    /// A value whose name is next to it, as in `{"name": "TOKEN", "value": "x"}`.
    Value,
}

impl ValueKind {
    /// Parses the name of a kind in `shapes.txt`.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "secret" => Self::Secret,
            "password" => Self::Password,
            "authorization" => Self::Authorization,
            "cookie" => Self::Cookie,
            "weak" => Self::Weak,
            "code" => Self::Code,
            "query" => Self::Query,
            "session" => Self::Session,
            "tool_call" => Self::ToolCall,
            "name" => Self::Name,
            "value" => Self::Value,
            _ => return None,
        })
    }

    /// Whether every value of this kind is a secret, whatever it looks like.
    pub(crate) fn is_certain(self) -> bool {
        matches!(self, Self::Secret | Self::Password | Self::Authorization | Self::Cookie)
    }

    /// Returns the type of id that is hashed into the replacement. `None` for other kinds.
    pub(crate) fn id(self) -> Option<&'static str> {
        match self {
            Self::Session => Some("session"),
            Self::ToolCall => Some("tool_call"),
            _ => None,
        }
    }
}

/// The meaning of the final words of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameEntry {
    /// The words announce a value of this kind.
    Kind(ValueKind),
    /// The words sound like a secret, but do not name one.
    Harmless,
    /// The word does not change the meaning of the name before it.
    Afterthought,
}
