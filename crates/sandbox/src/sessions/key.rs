//! Identifies a session and its owner.

/// Identifies a caller. Other callers do not see its sessions, whatever their names are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SessionOwner {
    /// The group of skills that share sessions: `toolset` or `skill`, a space, and its name.
    pub group: String,
    /// The call's principal. Empty for anonymous callers, which only the conversation distinguishes.
    pub principal: String,
    /// The call's session id. May be empty.
    pub conversation: String,
}

/// Identifies a session: its owner, and its name if it has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// The caller that owns the session.
    pub owner: SessionOwner,
    /// The name that the caller gave the session. `None` for a session that ends with its call.
    pub name: Option<String>,
}
