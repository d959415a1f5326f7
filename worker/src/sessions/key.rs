//! Whose a session is.

/// A caller, as far as sessions are concerned. No other caller sees its sessions, whatever their names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    /// The skills that look after the same sessions: `toolset` or `skill`, a space, and its name.
    pub(crate) group: String,
    /// On whose behalf the call runs; empty for an anonymous caller: all of those are told apart by the conversation alone.
    pub(crate) principal: String,
    /// The session of the call; may be empty.
    pub(crate) conversation: String,
}

/// A session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) owner: Owner,
    /// What the caller calls it. None: it is for one call.
    pub(crate) name: Option<String>,
}
