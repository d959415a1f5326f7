//! A tool before export.

use openskill_proto::v1::Icon;
use serde_json::Value;

/// A skill as a tool, independent of any provider.
#[derive(Debug, Clone, Copy)]
pub struct Tool<'a> {
    /// The skill's id.
    pub name: &'a str,
    /// Its display name. Empty if it has none.
    pub title: &'a str,
    /// Its icons.
    pub icons: &'a [Icon],
    /// The description by which a model chooses tools.
    pub description: &'a str,
    /// JSON Schema of the arguments. None if any object is accepted.
    pub schema: Option<&'a Value>,
    /// The JSON Schema of the result, as text. May be empty.
    pub output_schema_json: &'a str,
    /// Whether it may delete or overwrite things.
    pub destructive: bool,
    /// Whether it changes nothing.
    pub read_only: bool,
    /// Whether a second identical call does no harm.
    pub idempotent: bool,
    /// Whether its argument policy is strict: arguments that deviate from its schema are rejected, not repaired.
    pub refuses_repairs: bool,
}
