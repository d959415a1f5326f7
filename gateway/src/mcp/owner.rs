//! The owner of a task, a stream or a long result.

/// A principal, with the view that it used. Another view has other scopes, which must not give access to this
/// view's data.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Owner {
    pub(crate) principal: String,
    /// Empty for the view of `/mcp`.
    pub(crate) view: String,
}
